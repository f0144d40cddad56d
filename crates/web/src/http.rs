//! Requests and responses of HTTP/1.1, one request per connection. `httparse` parses the head; this module limits
//! sizes and times, and refuses requests that no browser sends.

use iodyno_live::admin_socket::Timed;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Maximum size of a request's head, bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum number of header fields.
const FIELDS_MAX: usize = 64;
/// Maximum size of a request's body, bytes.
const BODY_BYTES_MAX: usize = 16 << 10;
/// Time limit for a client to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a client to read the response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of bytes of a refused request that are read and dropped, so that the client can read the response.
const DROPPED_BYTES_MAX: u64 = 1 << 20;
/// Minimum size of a body that is compressed, bytes.
const COMPRESSED_BYTES_MIN: usize = 4 << 10;
/// zlib's compression level, 1 to 9.
const COMPRESSION_LEVEL: u8 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// GET or HEAD.
    Get,
    Post,
}

/// A request, read completely.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Whether the response has no body (HEAD).
    pub(crate) is_head: bool,
    /// Path, not percent-decoded, because no path of this server needs encoding.
    pub(crate) path: String,
    /// Text after `?`, not percent-decoded; empty if there is none.
    pub(crate) query: String,
    /// Header fields, names in lower case.
    fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Value of a header field; `None` if it is missing.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.0 == name).map(|field| field.1.as_str())
    }

    /// Values of a key in the query, decoded, in order.
    pub(crate) fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = Cow<'a, str>> {
        pairs(self.query.as_bytes(), key)
    }

    /// First value of a key in a body that a form sent, decoded; `None` if it is missing.
    pub(crate) fn form_value<'a>(&'a self, key: &'a str) -> Option<Cow<'a, str>> {
        pairs(&self.body, key).next()
    }
}

fn pairs<'a>(text: &'a [u8], key: &'a str) -> impl Iterator<Item = Cow<'a, str>> {
    form_urlencoded::parse(text).filter(move |(name, _)| name == key).map(|(_, value)| value)
}

/// Reason why a request could not be read.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The request is refused with this status and this text.
    Status(&'static str, &'static str),
    /// The connection ended or timed out.
    Broken(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(e: io::Error) -> Self {
        Self::Broken(e)
    }
}

const fn bad(why: &'static str) -> Refusal {
    Refusal::Status("400 Bad Request", why)
}

/// Reads and parses one request, within the limits of size and time.
pub(crate) fn read(stream: &TcpStream) -> Result<Request, Refusal> {
    let mut stream = Timed::new(stream, REQUEST_TIMEOUT);
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let n = stream.read(&mut chunk)?;
        if n == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        bytes.extend_from_slice(&chunk[..n]);
        let parsed = head(&bytes)?;
        if parsed.as_ref().map_or(bytes.len(), |(.., head)| *head) > HEAD_BYTES_MAX {
            return Err(Refusal::Status(
                "431 Request Header Fields Too Large",
                "the header of the request is too large",
            ));
        }
        if let Some((mut request, length, head)) = parsed {
            if length > BODY_BYTES_MAX {
                return Err(Refusal::Status("413 Content Too Large", "the request is too large"));
            }
            let mut body = bytes.split_off(head.min(bytes.len()));
            let had = body.len().min(length);
            body.resize(length, 0);
            stream.read_exact(&mut body[had..])?;
            request.body = body;
            return Ok(request);
        }
    }
}

/// Parses the head of a request. Returns the request with an empty body, and two lengths in bytes: of the body and of
/// the head. `None` while the head is incomplete.
fn head(bytes: &[u8]) -> Result<Option<(Request, usize, usize)>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(bad("this is not an HTTP/1.1 request")),
    };
    let method = match parsed.method.unwrap_or_default() {
        "GET" | "HEAD" => Method::Get,
        "POST" => Method::Post,
        _ => {
            return Err(Refusal::Status(
                "405 Method Not Allowed",
                "the method must be GET, HEAD or POST",
            ));
        }
    };
    let target = parsed.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Err(bad("the address must begin with a slash"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method,
        is_head: parsed.method == Some("HEAD"),
        path: path.to_owned(),
        query: query.to_owned(),
        fields: Vec::new(),
        body: Vec::new(),
    };
    for field in parsed.headers.iter() {
        let name = field.name.to_ascii_lowercase();
        let value = std::str::from_utf8(field.value)
            .map_err(|_| bad("a header field is not in ASCII"))?
            .trim();
        // Two proxies may choose different ones, and a browser sends each of these once.
        let is_single = matches!(name.as_str(), "host" | "origin" | "content-length");
        if is_single && request.field(&name).is_some() {
            return Err(bad("a header field is present twice"));
        }
        request.fields.push((name, value.to_owned()));
    }
    if request.field("transfer-encoding").is_some() {
        return Err(Refusal::Status("411 Length Required", "the request needs a Content-Length"));
    }
    let body = match request.field("content-length") {
        Some(text) if text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().map_err(|_| bad("Content-Length is not a length"))?
        }
        Some(_) => return Err(bad("Content-Length is not a length")),
        None => 0,
    };
    Ok(Some((request, body, length)))
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: &'static str,
    pub(crate) content_type: &'static str,
    /// Header fields besides the content type.
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

impl Response {
    pub(crate) fn new(
        status: &'static str,
        content_type: &'static str,
        body: impl Into<Vec<u8>>,
    ) -> Self {
        Self { status, content_type, fields: Vec::new(), body: body.into() }
    }

    /// Creates a response with status 200.
    pub(crate) fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self::new("200 OK", content_type, body)
    }

    /// Redirects the browser to another page, which it loads by GET.
    pub(crate) fn see_other(to: String) -> Self {
        Self::new("303 See Other", TEXT, "").with("Location", to)
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Sends the response, and ends the connection. `request` is `None` if none could be read.
    pub(crate) fn send(mut self, stream: &TcpStream, request: Option<&Request>) -> io::Result<()> {
        let accepts = request.and_then(|r| r.field("accept-encoding")).unwrap_or_default();
        if self.body.len() >= COMPRESSED_BYTES_MIN
            && accepts.split(',').any(|coding| coding.trim() == "deflate")
        {
            self.body = miniz_oxide::deflate::compress_to_vec_zlib(&self.body, COMPRESSION_LEVEL);
            self = self.with("Content-Encoding", "deflate");
        }
        let mut text = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: same-origin\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        for (name, value) in &self.fields {
            debug_assert!(!value.contains(['\r', '\n']), "{name}: {value}");
            let _ = write!(text, "{name}: {value}\r\n");
        }
        text += "\r\n";
        let mut bytes = text.into_bytes();
        if !request.is_some_and(|request| request.is_head) {
            bytes.append(&mut self.body);
        }
        Timed::new(stream, RESPONSE_TIMEOUT).write_all(&bytes)?;
        // Closing a connection with unread data resets it, and the client may lose the response.
        if request.is_none() {
            stream.shutdown(Shutdown::Write)?;
            let mut rest = Timed::new(stream, Duration::from_secs(1)).take(DROPPED_BYTES_MAX);
            io::copy(&mut rest, &mut io::sink())?;
        }
        Ok(())
    }
}
