//! Frames with their own copy of the bytes.

use super::Body;
use crate::kernels;
use crate::memory::view::Payload;

/// A frame's body with its own copy of the bytes.
pub struct OwnedBody {
    /// Without the bytes.
    body: Body<'static>,
    words: Box<[u64]>,
    bytes: usize,
}

/// Returns a copy of a payload in words. The last is filled up with zeros.
pub fn copied(source: Payload<'_>) -> Vec<u64> {
    let mut words = vec![0; source.bytes().div_ceil(8)];
    kernels::copy(Payload::from(&mut words[..]).part(0, source.bytes()), source, false);
    words
}

/// Returns bytes in words. The last is filled up with zeros.
pub fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|part| u64::from_le_bytes(std::array::from_fn(|i| part.get(i).copied().unwrap_or(0))))
}

/// Returns the first `length` bytes of words.
pub fn bytes_of(words: &[u64], length: usize) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).take(length).collect()
}

impl OwnedBody {
    /// A copy.
    pub fn of(body: Body<'_>) -> OwnedBody {
        let (body, source) = body.split();
        OwnedBody { body, words: copied(source).into(), bytes: source.bytes() }
    }

    /// The bytes.
    #[cfg(test)]
    pub fn bytes(&mut self) -> Payload<'_> {
        Payload::from(&mut self.words[..]).part(0, self.bytes)
    }

    /// The body.
    pub fn body(&mut self) -> Body<'_> {
        self.body.with(Payload::from(&mut self.words[..]).part(0, self.bytes))
    }
}

#[cfg(test)]
impl<'a> Body<'a> {
    /// Returns a copy, whose payload is a whole one if this has a part, and the bytes.
    pub fn with_its_whole(self) -> (OwnedBody, Payload<'a>) {
        let bytes = match self {
            Body::Data { bytes, .. } | Body::Piece { bytes, .. } => bytes,
            Body::Arrival { payload, .. } => payload,
            _ => Payload::EMPTY,
        };
        let mut owned = OwnedBody::of(self);
        if let Body::Arrival { part: Some([at, whole]), payload, .. } = self
            && !payload.is_empty()
        {
            let mut words = vec![0; whole.div_ceil(8)];
            kernels::copy(Payload::from(&mut words[..]).part(at, payload.bytes()), payload, false);
            (owned.words, owned.bytes) = (words.into(), whole);
        }
        (owned, bytes)
    }
}

impl Body<'_> {
    /// The body without its bytes, and these.
    fn split<'b>(&'b self) -> (Body<'static>, Payload<'b>) {
        let none = Payload::EMPTY;
        match *self {
            Body::Data { at, bytes, counter } => (Body::Data { at, bytes: none, counter }, bytes),
            Body::Arrival { seq, args, count, trail, payload, part, may_wait } => {
                (Body::Arrival { seq, args, count, trail, payload: none, part, may_wait }, payload)
            }
            Body::Piece { index, args, count, bytes } => {
                (Body::Piece { index, args, count, bytes: none }, bytes)
            }
            Body::Taken(taken) => (Body::Taken(taken), none),
            Body::Counter(counter) => (Body::Counter(counter), none),
            Body::Life(life) => (Body::Life(life), none),
            Body::News(news) => (Body::News(news), none),
            Body::Shrink { words, endpoint } => (Body::Shrink { words, endpoint: none }, endpoint),
            Body::Access(access) => (Body::Access(access.with(none)), access.bytes()),
        }
    }

    /// The body with these bytes.
    fn with<'b>(&self, source: Payload<'b>) -> Body<'b> {
        match *self {
            Body::Data { at, counter, .. } => Body::Data { at, bytes: source, counter },
            Body::Arrival { seq, args, count, trail, part, may_wait, .. } => {
                Body::Arrival { seq, args, count, trail, payload: source, part, may_wait }
            }
            Body::Piece { index, args, count, .. } => Body::Piece { index, args, count, bytes: source },
            Body::Taken(taken) => Body::Taken(taken),
            Body::Counter(counter) => Body::Counter(counter),
            Body::Life(life) => Body::Life(life),
            Body::News(news) => Body::News(news),
            Body::Shrink { words, .. } => Body::Shrink { words, endpoint: source },
            Body::Access(access) => Body::Access(access.with(source)),
        }
    }
}
