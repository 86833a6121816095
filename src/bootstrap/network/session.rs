//! A TCP connection that carries whole, sealed packets, as a local socket carries datagrams.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::super::frame::{MAX_BYTES, Secret};
use super::Who;
use super::handshake::{self, ANSWER, CHALLENGE, CLAIM, Claim, Nonce, SEAL, Seal, Shared, Status};
use crate::sync::lock::Mutex;
use crate::sys::fork::ParentsAlone;
use crate::sys::network;
use crate::sys::process::random;
use crate::sys::socket::{self, PollEntry};

/// Bytes that may wait to be sent before a packet is not taken any more.
const MOST_UNSENT: usize = 1 << 20;

/// Pings to a process that says nothing meanwhile: one that is stopped reads none of them.
const MOST_PINGS: u32 = 20;
/// Pings without a word of the other process after which its host may be taken for gone.
const FEW_PINGS: u32 = 2;
/// The shortest time without an acknowledgement after which it is.
const AT_LEAST: Duration = Duration::from_secs(1);

/// One end of a connection.
pub struct Session {
    /// Before the stream: fields are dropped in this order.
    _parents: ParentsAlone,
    stream: TcpStream,
    silence: Duration,
    reader: Mutex<Reader>,
    writer: Mutex<Writer>,
}

struct Reader {
    /// The bytes of a message that has not come whole.
    bytes: Vec<u8>,
    stage: Stage,
}

enum Stage {
    /// The server waits for the claim that answers its challenge.
    Challenged(Nonce),
    /// Both ends believe each other.
    Open(Open),
}

struct Open {
    serial: u64,
    seal: Seal,
    peer: Who,
}

#[derive(Default)]
struct Writer {
    unsent: VecDeque<u8>,
    seal: Option<Seal>,
    /// Pings since something has come.
    pings: u32,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Session {
    /// Begins the server's end of a connection: sends the challenge.
    pub fn accepted(stream: TcpStream, silence: Duration) -> io::Result<Session> {
        let nonce = random();
        let session = Session::new(stream, silence, Stage::Challenged(nonce))?;
        session.write(&mut session.writer.lock(), &handshake::challenge(&nonce))?;
        Ok(session)
    }

    fn new(stream: TcpStream, silence: Duration, stage: Stage) -> io::Result<Session> {
        stream.set_nonblocking(true)?;
        network::tell_dead_hosts(&stream, silence)?;
        let reader = Mutex::new(Reader { bytes: Vec::new(), stage });
        let parents = ParentsAlone::new(stream.as_raw_fd());
        Ok(Session { _parents: parents, stream, silence, reader, writer: Mutex::default() })
    }

    /// Begins the client's end: connects, and proves that it knows the secret. A host that is silent for longer than `silence` afterwards
    /// is taken for dead.
    pub fn connect(
        address: SocketAddr,
        silence: Duration,
        serial: u64,
        secret: &Secret,
        me: &Who,
        until: Instant,
    ) -> Result<Session, SessionRefusal> {
        let patience = || until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let stream = network::connect(address, patience()).map_err(SessionRefusal::Unreachable)?;
        stream.set_read_timeout(Some(patience())).map_err(SessionRefusal::Unreachable)?;
        let mut bytes = [0; CHALLENGE];
        let mute = |e: io::Error| match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => SessionRefusal::Mute,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => SessionRefusal::TurnedAway,
            _ => SessionRefusal::Unreachable(e),
        };
        (&stream).read_exact(&mut bytes).map_err(mute)?;
        let server = handshake::read_challenge(&bytes).ok_or(SessionRefusal::Foreign)?;
        let client = random();
        let shared = Shared { secret, serial, server: &server, client: &client };
        (&stream).write_all(&shared.claim(me)).map_err(mute)?;
        let mut answer = [0; ANSWER];
        (&stream).read_exact(&mut answer).map_err(mute)?;
        let peer = shared.read_answer(&answer).map_err(SessionRefusal::By)?;
        let [mine, theirs] = shared.seals();
        let session = Session::new(stream, silence, Stage::Open(Open { serial, seal: theirs, peer }))
            .map_err(SessionRefusal::Unreachable)?;
        session.writer.lock().seal = Some(mine);
        Ok(session)
    }

    /// Returns who is at the other end, once it has proved that it knows the secret.
    pub fn peer(&self) -> Option<Who> {
        match &self.reader.lock().stage {
            Stage::Open(open) => Some(open.peer),
            Stage::Challenged(_) => None,
        }
    }

    /// Returns the meeting whose secret the client has proved to know.
    pub fn serial(&self) -> Option<u64> {
        match &self.reader.lock().stage {
            Stage::Open(open) => Some(open.serial),
            Stage::Challenged(_) => None,
        }
    }

    /// Returns the addresses of this end and of the other.
    pub fn addresses(&self) -> io::Result<[SocketAddr; 2]> {
        Ok([self.stream.local_addr()?, self.stream.peer_addr()?])
    }

    /// Reads the client's claim and answers it, on the server's end. `secret_of`: the secret of a meeting. `WouldBlock` until the claim
    /// has come whole.
    pub fn hear_claim(&self, secret_of: &dyn Fn(u64) -> Option<Secret>, me: &Who) -> io::Result<()> {
        let mut reader = self.reader.lock();
        let Stage::Challenged(server) = &reader.stage else { return Ok(()) };
        let server = *server;
        self.fill(&mut reader.bytes, CLAIM)?;
        let claim = Claim::read(&std::array::from_fn(|i| reader.bytes[i]));
        reader.bytes.clear();
        let secret = secret_of(claim.serial);
        let refuse = |status| {
            let _ = self.write(&mut self.writer.lock(), &handshake::refusal(status));
            Err(broken("the client does not know the secret"))
        };
        let Some(secret) = secret else { return refuse(Status::UnknownMeeting) };
        let shared = Shared { secret: &secret, serial: claim.serial, server: &server, client: &claim.client };
        let Some(peer) = claim.proves(&shared) else { return refuse(Status::WrongSecret) };
        let [theirs, mine] = shared.seals();
        let mut writer = self.writer.lock();
        self.write(&mut writer, &shared.answer(me))?;
        writer.seal = Some(mine);
        reader.stage = Stage::Open(Open { serial: claim.serial, seal: theirs, peer });
        Ok(())
    }

    /// Reads until `bytes` holds `wanted` bytes. `WouldBlock` if they have not come, `UnexpectedEof` if the other end has closed.
    fn fill(&self, bytes: &mut Vec<u8>, wanted: usize) -> io::Result<()> {
        while bytes.len() < wanted {
            let have = bytes.len();
            bytes.resize(wanted, 0);
            let read = (&self.stream).read(&mut bytes[have..]);
            bytes.truncate(have + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Receives one packet into `buffer` and returns its length; 0: the other end has closed. `WouldBlock` if there is none yet.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut reader = self.reader.lock();
        let Reader { bytes, stage } = &mut *reader;
        let Stage::Open(open) = stage else { return Err(io::ErrorKind::WouldBlock.into()) };
        let closed = |e: io::Error| match e.kind() {
            io::ErrorKind::UnexpectedEof => Ok(0),
            _ => Err(e),
        };
        if let Err(e) = self.fill(bytes, 4) {
            return closed(e);
        }
        let len = u32::from_le_bytes(std::array::from_fn(|i| bytes[i])) as usize;
        if len == 0 || len > MAX_BYTES.min(buffer.len()) {
            return Err(broken("a packet of impossible length"));
        }
        if let Err(e) = self.fill(bytes, 4 + len + SEAL) {
            return closed(e);
        }
        let (packet, seal) = bytes[4..].split_at(len);
        if !open.seal.fits(packet, seal) {
            return Err(broken("a packet with a wrong seal"));
        }
        buffer[..len].copy_from_slice(packet);
        bytes.clear();
        self.writer.lock().pings = 0;
        Ok(len)
    }

    /// Sends one packet. What the other end does not take now is kept. `WouldBlock`: too much is kept already.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        let mut writer = self.writer.lock();
        self.flush_locked(&mut writer)?;
        if writer.unsent.len() > MOST_UNSENT {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let Some(seal) = &mut writer.seal else { return Err(io::ErrorKind::NotConnected.into()) };
        let seal = seal.next(packet);
        let frame = [&(packet.len() as u32).to_le_bytes(), packet, &seal].concat();
        self.write(&mut writer, &frame)
    }

    /// Sends a packet that means nothing, which the other host's kernel acknowledges, whatever its process does. `TimedOut`: it has acknowledged
    /// nothing for three quarters of the time that a silent host is waited for.
    pub fn ping(&self, packet: &[u8]) -> io::Result<()> {
        let pings = {
            let mut writer = self.writer.lock();
            writer.pings = writer.pings.saturating_add(1);
            writer.pings
        };
        if pings > MOST_PINGS {
            // The kernel's probes alone.
            return Ok(());
        }
        if pings > FEW_PINGS
            && network::unacknowledged_for(&self.stream)? >= (self.silence * 3 / 4).max(AT_LEAST)
        {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.send(packet)
    }

    fn write(&self, writer: &mut Writer, bytes: &[u8]) -> io::Result<()> {
        writer.unsent.extend(bytes);
        self.flush_locked(writer)
    }

    fn flush_locked(&self, writer: &mut Writer) -> io::Result<()> {
        while !writer.unsent.is_empty() {
            match (&self.stream).write(writer.unsent.as_slices().0) {
                Ok(sent) => drop(writer.unsent.drain(..sent)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends what is kept, as far as the other end takes it.
    pub fn flush(&self) -> io::Result<()> {
        self.flush_locked(&mut self.writer.lock())
    }

    /// Tells whether bytes are kept that the other end has not taken.
    pub fn has_unsent(&self) -> bool {
        !self.writer.lock().unsent.is_empty()
    }

    /// Sends what is kept, for at most `patience`, and ends both directions.
    pub fn close(&self, patience: Duration) {
        let until = Instant::now() + patience;
        while self.flush().is_ok() && self.has_unsent() && Instant::now() < until {
            let _ = socket::wait(&mut [PollEntry::writable(&self.stream)], Some(Duration::from_millis(10)));
        }
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Why a client has no session.
#[derive(Debug)]
pub enum SessionRefusal {
    /// Nothing listens there, or the network does not lead there.
    Unreachable(io::Error),
    /// The server has closed the connection: it has too many.
    TurnedAway,
    /// The server says nothing.
    Mute,
    /// What listens there is not one of Penny's meetings, or of another version.
    Foreign,
    /// The server does not want this client.
    By(Status),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::host::HostIdentity;
    use std::net::TcpListener;

    #[test]
    fn a_process_that_says_nothing_is_sent_no_more_pings_and_is_not_taken_for_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, secret, silence) =
            (listener.local_addr().unwrap(), Secret([7; 16]), Duration::from_secs(3600));
        let me = Who { pid: 1, host: Some(HostIdentity::this(Some("a"))) };
        let until = Instant::now() + Duration::from_secs(60);
        let (client, server) = std::thread::scope(|scope| {
            let client = scope.spawn(|| Session::connect(at, silence, 5, &secret, &me, until).unwrap());
            let server = Session::accepted(listener.accept().unwrap().0, silence).unwrap();
            // BOUND: the client's patience.
            while server.peer().is_none() && Instant::now() < until {
                let _ = server.hear_claim(&|_| Some(secret), &me);
                std::thread::yield_now();
            }
            (client.join().unwrap(), server)
        });
        let has_come = |to: &Session, pings: u32| {
            let mut buffer = [0; MAX_BYTES];
            for _ in 0..pings {
                socket::wait(&mut [PollEntry::readable(to)], Some(Duration::from_secs(60))).unwrap();
                assert_eq!(to.receive(&mut buffer).unwrap(), 4);
            }
            assert_eq!(to.receive(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        };
        (0..2 * MOST_PINGS).for_each(|_| server.ping(b"ping").unwrap());
        has_come(&client, MOST_PINGS);
        client.ping(b"here").unwrap();
        has_come(&server, 1);
        server.ping(b"ping").unwrap();
        has_come(&client, 1);
        assert!(network::unacknowledged_for(&server.stream).unwrap() < Duration::from_secs(3600));
    }
}
