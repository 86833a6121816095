//! Two endpoints of this process, over loopback, by each carrier.

use super::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const WORDS: usize = 1100;

/// Memory of a test, which is never freed.
pub struct Words(&'static [u64]);

// SAFETY: it lives as long as the process, and only atomic or kernel accesses change it.
unsafe impl MappedRegion for Words {
    fn base(&self) -> usize {
        self.0.as_ptr() as usize
    }
    fn bytes(&self) -> usize {
        size_of_val(self.0)
    }
}

impl Words {
    pub fn new(words: usize, value: u64) -> (Words, usize) {
        let words: &'static mut [u64] = Box::leak(vec![value; words].into_boxed_slice());
        let at = words.as_mut_ptr().expose_provenance();
        (Words(words), at)
    }
}

/// Reads a word that the kernel may have changed.
pub fn word(at: usize, index: usize) -> u64 {
    // SAFETY: within memory of `Words::new`, which is never freed.
    unsafe { std::ptr::with_exposed_provenance::<u64>(at).add(index).read_volatile() }
}

fn pair(carrier: &Carrier, address: IpAddr) -> (Box<dyn Endpoint>, Box<dyn Endpoint>, PeerId, PeerId) {
    let [mut a, mut b] = [(); 2].map(|()| carrier.open(address, WORDS).unwrap());
    let (to_b, to_a) = (a.insert(b.name()).unwrap(), b.insert(a.name()).unwrap());
    (a, b, to_b, to_a)
}

/// Polls both until `done`.
fn until(
    a: &mut dyn Endpoint,
    b: &mut dyn Endpoint,
    mut done: impl FnMut(&mut dyn Endpoint, &mut dyn Endpoint) -> bool,
) {
    for _ in 0..2_000_000 {
        if done(a, b) {
            return;
        }
    }
    panic!("nothing has come");
}

fn messages_and_writes_arrive(carrier: &Carrier, address: IpAddr) {
    let (mut a, mut b, to_b, to_a) = pair(carrier, address);
    let (a, b) = (&mut *a, &mut *b);
    let mut come = Vec::new();
    // Small ones are copied at once, large ones have a buffer.
    let messages = [vec![1u64; 5], (0..WORDS as u64).collect(), vec![3; 1]];
    for message in &messages {
        until(a, b, |a, b| {
            a.poll(&mut |_| ()).unwrap();
            b.poll(&mut |event| {
                if let Report::Message(words) = event {
                    come.push(words.to_vec());
                }
            })
            .unwrap();
            a.send(to_b, message).unwrap()
        });
    }
    until(a, b, |a, b| {
        a.poll(&mut |_| ()).unwrap();
        b.poll(&mut |event| {
            if let Report::Message(words) = event {
                come.push(words.to_vec());
            }
        })
        .unwrap();
        come.len() == 3
    });
    assert_eq!(come, messages);

    let (source, _) = Words::new(20_000, 7);
    let (target, at) = Words::new(30_000, 0);
    let memory = b.register(Box::new(source), 0, 160_000, Use::Send).unwrap();
    let written = a.register(Box::new(target), 80, 239_920, Use::Written).unwrap();
    let remote = a.remote(written);
    let place = |offset: u64| Place { address: remote.address + offset, key: remote.key };
    let source = SourceRange::Memory { memory, at: 8, bytes: 150_000 };
    let mut told = None;
    let mut posted = false;
    until(a, b, |a, b| {
        posted |=
            !posted && b.write(to_a, source, &[11, 12], [place(8), place(200_000)], 0xfedc_ba98).unwrap();
        b.poll(&mut |_| ()).unwrap();
        a.poll(&mut |event| {
            if let Report::Written(data) = event {
                told = Some(data);
            }
        })
        .unwrap();
        told.is_some()
    });
    assert_eq!(told, Some(0xfedc_ba98));
    let words: Vec<u64> = (0..30_000).map(|i| word(at, i)).collect();
    assert_eq!((words[10], words[11], words[11 + 18_749], words[11 + 18_750]), (0, 7, 7, 0));
    assert_eq!(words[10 + 25_000..][..3], [11, 12, 0]);
    assert!(a.open_descriptor().is_some() && a.may_sleep().is_some());
}

#[test]
fn messages_and_writes_arrive_over_ipv4_and_ipv6() {
    let has_v6 = std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    for carrier in carriers() {
        messages_and_writes_arrive(carrier, V4);
        if has_v6 {
            messages_and_writes_arrive(carrier, IpAddr::V6(Ipv6Addr::LOCALHOST));
        }
    }
}

/// Whether a descriptor is readable now.
pub fn is_readable(descriptor: Option<RawFd>) -> bool {
    let mut watched = libc::pollfd { fd: descriptor.unwrap(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry of this stack.
    unsafe { libc::poll(&mut watched, 1, 0) == 1 }
}

#[test]
fn a_descriptor_tells_of_what_has_come_and() {
    for carrier in carriers() {
        let (mut a, mut b, _, to_a) = pair(carrier, V4);
        let (a, b) = (&mut *a, &mut *b);
        assert!(a.has_descriptor());
        let send_and_take = |a: &mut dyn Endpoint, b: &mut dyn Endpoint, takes: bool| {
            until(a, b, |a, b| {
                a.poll(&mut |_| ()).unwrap();
                b.poll(&mut |_| ()).unwrap();
                b.send(to_a, &[1; 5]).unwrap()
            });
            let mut has_come = !takes;
            until(a, b, |a, _| {
                let mut come = |event: Report<'_>| has_come |= matches!(event, Report::Message(_));
                if takes {
                    a.poll(&mut come).unwrap();
                }
                has_come
            });
        };
        send_and_take(a, b, true);
        let descriptor = a.open_descriptor();
        until(a, b, |a, _| {
            a.poll(&mut |_| ()).unwrap();
            a.may_sleep().is_some() && !is_readable(descriptor)
        });
        assert_eq!(a.open_descriptor(), descriptor, "it is open");
        send_and_take(a, b, false);
        until(a, b, |_, _| is_readable(descriptor));
        a.close_descriptor();
        // What came before tells as well.
        let again = a.open_descriptor();
        until(a, b, |_, _| is_readable(again));
        until(a, b, |a, _| {
            a.poll(&mut |_| ()).unwrap();
            a.may_sleep().is_some() && !is_readable(again)
        });
        a.close_descriptor();
    }
}

#[test]
fn a_write_without_the_key_changes_nothing() {
    for carrier in carriers() {
        let (mut a, mut b, _, to_a) = pair(carrier, V4);
        let (a, b) = (&mut *a, &mut *b);
        let (source, _) = Words::new(2000, 7);
        let (target, at) = Words::new(2000, 0);
        let memory = b.register(Box::new(source), 0, 16_000, Use::Send).unwrap();
        let written = a.register(Box::new(target), 0, 16_000, Use::Written).unwrap();
        let remote = a.remote(written);
        let place = Place { address: remote.address, key: remote.key ^ 1 };
        let (mut lost, mut told, mut posted) = (false, false, false);
        until(a, b, |a, b| {
            let source = SourceRange::Memory { memory, at: 0, bytes: 16_000 };
            posted |= !posted && b.write(to_a, source, &[], [place; 2], 1).unwrap();
            b.poll(&mut |event| lost |= matches!(event, Report::Lost(..))).unwrap();
            a.poll(&mut |event| told |= matches!(event, Report::Written(_))).unwrap();
            posted && (lost || b.pending() == 0)
        });
        assert!(!told && (0..2000).all(|i| word(at, i) == 0));
    }
}
