//! An HTTP server that answers `GET /metrics` and nothing else.

use crate::admin_socket::{self, Timed};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Maximum length of an HTTP request's header, bytes.
const HEAD_MAX: u64 = 16 << 10;
/// Time limit for a client to send the header of its HTTP request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a client to read the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Listens at `at` and answers each HTTP request `GET /metrics` with the text that `metrics` returns, in
/// separate threads with a limit on concurrent requests. Returns the address; with port 0 the system chooses
/// the port.
///
/// # Errors
/// Listening at the address fails.
pub fn serve(
    at: SocketAddr,
    content_type: &'static str,
    metrics: impl Fn() -> String + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(at)?;
    let address = listener.local_addr()?;
    let accept = move || listener.accept().map(|(stream, _)| stream);
    let handler = move |stream: &TcpStream| answer(stream, content_type, &metrics);
    admin_socket::serve("metrics", accept, handler)?;
    Ok(address)
}

fn answer(stream: &TcpStream, content_type: &str, metrics: &impl Fn() -> String) -> io::Result<()> {
    // Read to the end of the head: closing a connection with unread data resets it, and the client may lose the
    // answer.
    let mut head = BufReader::new(Timed::new(stream, REQUEST_TIMEOUT)).take(HEAD_MAX).lines();
    let line = head.next().transpose()?.unwrap_or_default();
    while !head.next().transpose()?.unwrap_or_default().is_empty() {}
    let mut words = line.split_whitespace();
    let plain = "text/plain; charset=utf-8";
    let (status, content_type, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics" | "/")) => ("200 OK", content_type, metrics()),
        (Some("GET"), _) => ("404 Not Found", plain, "the only path is /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", plain, "the only method is GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    Timed::new(stream, ANSWER_TIMEOUT).write_all((head + &body).as_bytes())
}
