//! NATS JetStream: a single-node server with `sync_interval: always`, and a client for its text protocol.
//!
//! A batch is either one atomic batch, of which only the last message is acknowledged, or messages that are published
//! together and acknowledged one by one. For a single message both are the same.

use crate::Outcome;
use crate::contender::{Contender, Held};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

const START_MAX: Duration = Duration::from_secs(20);
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Contender NATS: a server process and a client connection.
pub(crate) struct Nats {
    server: Server,
    client: Client,
    is_atomic: bool,
    program: String,
    dir: PathBuf,
}

/// A NATS server process, killed on drop.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts a NATS server that stores its data below `dir`.
    fn start(dir: &Path, program: &str) -> Outcome<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        // The default maximum is 1000 messages per batch.
        let config = format!(
            "listen: \"127.0.0.1:{port}\"\n\
             jetstream {{\n  store_dir: \"{}\"\n  sync_interval: always\n  \
             limits {{ batch {{ max_msgs: 65536 }} }}\n}}\n",
            dir.display()
        );
        let file = dir.join("server.conf");
        fs::write(&file, config)?;
        let log = File::create(dir.join("server.log"))?;
        let mut command = Command::new(program);
        command.arg("-c").arg(&file).stdout(log.try_clone()?).stderr(log);
        let child =
            command.spawn().map_err(|e| format!("{program}: {e}; give its path with --nats"))?;
        Ok(Self { child, port })
    }

    fn stop(mut self) -> Outcome<()> {
        // SIGTERM lets the server end in an orderly way; a kill would unfairly test its recovery.
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Nats {
    pub(crate) fn open(dir: &Path, program: &str, is_atomic: bool) -> Outcome<Self> {
        let dir = fs::canonicalize(dir)?.join("nats");
        fs::create_dir(&dir)?;
        let server = Server::start(&dir, program)?;
        let mut client = Client::connect(server.port)?;
        let stream = br#"{"name":"L","subjects":["l"],"storage":"file","num_replicas":1,"retention":"limits","max_msgs":-1,"max_bytes":-1,"max_age":0,"allow_atomic":true}"#;
        client.request("$JS.API.STREAM.CREATE.L", stream)?;
        Ok(Self { server, client, is_atomic, program: program.to_owned(), dir })
    }
}

impl Contender for Nats {
    fn commit(&mut self, first: u64, bodies: &[&[u8]]) -> Outcome<()> {
        let is_atomic = self.is_atomic && bodies.len() > 1;
        let client = &mut self.client;
        client.out.clear();
        for (i, body) in bodies.iter().enumerate() {
            if is_atomic {
                let is_last = i + 1 == bodies.len();
                client.put_of_batch(first, i + 1, is_last, body)?;
            } else {
                write!(client.out, "PUB l _R.a {}\r\n", body.len())?;
                client.out.extend_from_slice(body);
                client.out.extend_from_slice(b"\r\n");
            }
        }
        client.send()?;
        for _ in 0..if is_atomic { 1 } else { bodies.len() } {
            client.answer()?;
        }
        Ok(())
    }

    fn reopen(self: Box<Self>) -> Outcome<Held> {
        let Self { server, client, program, dir, .. } = *self;
        drop(client);
        server.stop()?;
        let server = Server::start(&dir, &program)?;
        let mut client = Client::connect(server.port)?;
        let info = client.request("$JS.API.STREAM.INFO.L", b"")?;
        let count = |name: &str| info["state"][name].as_u64().unwrap_or(0);
        let messages = count("messages").min(count("last_seq"));
        let ask = format!("{{\"seq\":{messages}}}");
        let answer = client.request("$JS.API.STREAM.MSG.GET.L", ask.as_bytes())?;
        let last = from_base64(answer["message"]["data"].as_str().unwrap_or_default());
        server.stop()?;
        Ok(Held { messages, last })
    }
}

/// A client connection to the NATS server.
struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    out: Vec<u8>,
    line: String,
    payload: Vec<u8>,
}

impl Client {
    /// Connects to the server, waiting until it listens, and subscribes to replies.
    fn connect(port: u16) -> Outcome<Self> {
        let start = Instant::now();
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(e) if start.elapsed() > START_MAX => return Err(e.into()),
                Err(_) => sleep(Duration::from_millis(10)),
            }
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let reader = BufReader::new(stream.try_clone()?);
        let (out, line, payload) = (Vec::new(), String::new(), Vec::new());
        let mut client = Self { stream, reader, out, line, payload };
        client.out.extend_from_slice(
            b"CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n\
              SUB _R.> 1\r\n",
        );
        client.send()?;
        Ok(client)
    }

    fn send(&mut self) -> Outcome<()> {
        Ok(self.stream.write_all(&self.out)?)
    }

    /// Appends a message of the atomic batch `id` to the send buffer, with the sequence number `at`. `is_last`: commits
    /// the batch, and requests the only acknowledgement.
    fn put_of_batch(&mut self, id: u64, at: usize, is_last: bool, body: &[u8]) -> Outcome<()> {
        let (reply, commit) =
            if is_last { ("_R.a ", "Nats-Batch-Commit: 1\r\n") } else { ("", "") };
        let header =
            format!("NATS/1.0\r\nNats-Batch-Id: {id}\r\nNats-Batch-Sequence: {at}\r\n{commit}\r\n");
        let (header_len, whole_len) = (header.len(), header.len() + body.len());
        write!(self.out, "HPUB l {reply}{header_len} {whole_len}\r\n{header}")?;
        self.out.extend_from_slice(body);
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Sends a request to the server's API, retrying until the API is ready.
    fn request(&mut self, subject: &str, body: &[u8]) -> Outcome<Value> {
        let start = Instant::now();
        loop {
            self.out.clear();
            write!(self.out, "PUB {subject} _R.r {}\r\n", body.len())?;
            self.out.extend_from_slice(body);
            self.out.extend_from_slice(b"\r\n");
            self.send()?;
            match self.answer() {
                Ok(answer) => return Ok(answer),
                Err(e) if start.elapsed() > START_MAX => return Err(e),
                Err(_) => sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Receives the next message, which must be an acknowledgement or a reply.
    fn answer(&mut self) -> Outcome<Value> {
        loop {
            self.line.clear();
            if self.reader.read_line(&mut self.line)? == 0 {
                return Err("the server closed the connection".into());
            }
            let line = self.line.trim_end();
            if line == "PING" {
                self.stream.write_all(b"PONG\r\n")?;
            } else if line.starts_with("-ERR") {
                return Err(line.into());
            } else if line.starts_with("MSG ") || line.starts_with("HMSG ") {
                let len = line.rsplit(' ').next().map(str::parse::<usize>);
                let len = len.ok_or("no length")??;
                self.payload.resize(len + 2, 0);
                self.reader.read_exact(&mut self.payload)?;
                if self.line.starts_with("HMSG ") {
                    // The status "no responders": the server's API, or the stream, is not ready yet.
                    return Err(String::from_utf8_lossy(&self.payload).trim().into());
                }
                let answer: Value = serde_json::from_slice(&self.payload[..len])?;
                return match answer.get("error") {
                    Some(error) => Err(error.to_string().into()),
                    None => Ok(answer),
                };
            }
        }
    }
}

/// Decodes base64 with padding; stops at an invalid character.
fn from_base64(text: &str) -> Vec<u8> {
    let digits = text.bytes().map_while(|c| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0, 0_u32);
    for digit in digits {
        held = held << 6 | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_any_length_is_read() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v+/A=", "foo\u{fb}\u{f0}")]
        {
            let expected: Vec<u8> = bytes.chars().map(|c| c as u8).collect();
            assert_eq!(from_base64(text), expected, "{text}");
        }
    }
}
