use super::*;
use crate::transport::link::copied;
use proptest::prelude::*;

fn text(item: &Item<'_>) -> String {
    match *item {
        Item::Line(number, body) => match body {
            Body::Data { at, bytes, counter } => {
                format!("{number} data {at} {counter} {:?}", copied(bytes))
            }
            Body::Counter(counter) => format!("{number} counter {counter}"),
            Body::Arrival { seq, args, count, trail, payload, .. } => {
                format!("{number} arrival {seq} {args} {count} {trail} {:?}", copied(payload))
            }
            Body::Piece { index, args, count, bytes } => {
                format!("{number} piece {index} {args} {count} {:?}", copied(bytes))
            }
            Body::Taken(t) => format!("{number} taken {} {} {:?}", t.taken, t.refused, t.refused_args),
            Body::Life(l) => format!("{number} life {} {} {} {}", l.pid, l.start, l.state, l.failed_seq),
            Body::News(n) => format!("{number} news {n:?}"),
            Body::Access(access) => format!("{number} {}", access_text(access)),
            Body::Shrink { words: own, endpoint } => {
                format!("{number} shrink {own:?} {:?}", copied(endpoint))
            }
        },
        Item::Bye(frames) => format!("bye {frames}"),
        Item::ByeTaken => "taken".into(),
        Item::Posted(frames) => format!("posted {frames}"),
        Item::Credit => "credit".into(),
        Item::OfWrite(number) => format!("of {number}"),
        Item::Ask(until) => format!("ask {until}"),
        Item::Ahead(bits) => format!("ahead {bits}"),
        Item::Hello => "hello".into(),
        Item::Question(round) => format!("question {round}"),
        Item::Answer(round) => format!("answer {round}"),
        Item::Closed(rails) => format!("closed {rails}"),
        Item::Rest(slot) => format!("rest {slot:?}"),
        Item::Opened(message, memory, name) => format!("opened {message:?} {memory:?} {:?}", copied(name)),
    }
}

fn access_text(access: FarAccess<'_>) -> String {
    match access {
        FarAccess::Put { at, bytes, .. } => format!("put {at} {:?}", copied(bytes)),
        FarAccess::Change { at, wide, change, ticket, .. } => format!("{change:?} {at} {wide} {ticket}"),
        FarAccess::Get { at, bytes, ticket } => format!("get {at} {bytes} {ticket}"),
        FarAccess::Signal { context, index } => format!("signal {context} {index}"),
        FarAccess::Ask { of, words: own, bytes, ticket, .. } => {
            format!("ask {of} {own:?} {:?} {ticket}", copied(bytes))
        }
        FarAccess::HowFar => "how far".into(),
        FarAccess::Done(done) => format!("done {done}"),
        FarAccess::Answer { ticket, bytes } => format!("answer {ticket} {:?}", copied(bytes)),
    }
}

#[test]
fn what_is_put_into_a_message_is_taken_out_again() {
    let mut payload = [5u64, 6, 7];
    let payload = Payload::from(&mut payload[..]).part(0, 21);
    let life = LifeLine { pid: 3, start: u64::MAX, state: 2, failed_seq: 9, rests: 10 };
    let news = News { disagreement: 1, cause: 2, dead: Some(3), ending: Some((Ending::Revoked, 4)) };
    let change = Change { op: AtomicOp::Xor, value: 8, expected: 9 };
    let change = FarAccess::Change { at: 7, wide: true, change, ticket: 10, more: false };
    let ask = FarAccess::Ask { of: 1, words: [2, 3, 4], bytes: payload, ticket: 5, more: false };
    let items = [
        Item::Line(0, Body::Data { at: 64, bytes: payload, counter: 8 }),
        Item::Line(1, Body::Counter(u64::MAX)),
        Item::Line(
            2,
            Body::Arrival { seq: 1, args: 2, count: 3, trail: 4, payload, part: None, may_wait: true },
        ),
        Item::Line(3, Body::Life(life)),
        Item::Line(4, Body::News(news)),
        Item::Line(5, Body::Piece { index: 3, args: 4, count: 5, bytes: payload }),
        Item::Line(6, Body::Taken(TakenLine { taken: 1, refused: 2, refused_args: [3, 4], may_wait: true })),
        Item::Line(7, Body::Shrink { words: [3, 4], endpoint: payload }),
        Item::Line(8, Body::Access(FarAccess::Put { at: u64::MAX, bytes: payload, more: false })),
        Item::Line(9, Body::Access(change)),
        Item::Line(10, Body::Access(FarAccess::Get { at: 1, bytes: 2, ticket: 3 })),
        Item::Line(11, Body::Access(FarAccess::Signal { context: 7, index: 63 })),
        Item::Line(12, Body::Access(FarAccess::HowFar)),
        Item::Line(12, Body::Access(ask)),
        Item::Line(13, Body::Access(FarAccess::Done(5))),
        Item::Line(14, Body::Access(FarAccess::Answer { ticket: 6, bytes: payload })),
        Item::Bye(77),
        Item::ByeTaken,
        Item::Posted(78),
        Item::Credit,
        Item::OfWrite(12),
        Item::Ask(13),
        Item::Ahead(u64::MAX),
        Item::Hello,
        Item::Question(14),
        Item::Answer(15),
        Item::Closed(16),
        Item::Rest(RestOfMessage { index: 18, args: 5, count: 6 }),
        Item::Opened(
            WantedMessage { index: 17, kind: 1, count: 2 },
            RemoteMemory { address: 3, key: 4 },
            payload,
        ),
    ];
    let mut message = Vec::new();
    items.iter().for_each(|item| put(&mut message, item, false));
    let mut rest = &mut message[..];
    for item in &items {
        assert_eq!(take(&mut rest).map(|found| text(&found)), Some(text(item)));
    }
    assert!(rest.is_empty() && take(&mut rest).is_none());
    message.clear();
    put(&mut message, &items[0], true);
    put(&mut message, &items[2], true);
    put(&mut message, &items[5], true);
    let mut rest = &mut message[..];
    assert_eq!(text(&take(&mut rest).unwrap()), "0 counter 8");
    assert_eq!(text(&take(&mut rest).unwrap()), "2 arrival 1 2 3 4 []");
    assert_eq!(text(&take(&mut rest).unwrap()), "5 piece 3 4 5 []");
    for number in [None, Some(0), Some(u32::MAX)] {
        let header = MessageHeader { token: 9, from: 1023, seen: u32::MAX, number, messages: 7 };
        assert_eq!(MessageHeader::of(&header.words()), Some(header));
    }
}

#[test]
fn what_is_withdrawn_shows_no_bytes_and_keeps_its_number() {
    let (payload, part) = (Payload::EMPTY, None);
    let arrival = |args| Body::Arrival { seq: 1, args, count: 3, trail: 4, payload, part, may_wait: false };
    let gone = arrival(2 | arrival::WITHDRAWN);
    for (last, left) in [(Body::Counter(9), Body::Counter(0)), (arrival(2), gone)] {
        let mut words = Vec::new();
        put(&mut words, &Item::Ahead(5), false);
        put(&mut words, &Item::Line(7, Body::Counter(8)), false);
        put(&mut words, &Item::Line(8, last), true);
        withdraw(&mut words);
        let mut rest = &mut words[..];
        assert!(matches!(take(&mut rest), Some(Item::Ahead(5))));
        assert!(matches!(take(&mut rest), Some(Item::Line(7, Body::Counter(8)))));
        assert_eq!(take(&mut rest).map(|item| text(&item)), Some(text(&Item::Line(8, left))));
        assert!(rest.is_empty());
    }
}

proptest! {
    #[test]
    fn random_words_are_no_frame_or_one_within_them(
        mut words in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..31, (0u64..31, 0u64..99).prop_map(|(k, b)| k | b << 32)], 0..40)
    ) {
        let mut left = words.len();
        let mut rest = &mut words[..];
        while let Some(item) = take(&mut rest) {
            let _ = text(&item);
            prop_assert!(rest.len() + 2 <= left);
            left = rest.len();
        }
    }
}
