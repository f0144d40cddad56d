//! An HTTP server for metrics: it answers `GET /metrics` and `GET /`, and nothing else.

use crate::admin_socket::{self, Timed};
use iodyno_measure::exposition::TextFormat;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Maximum length of an HTTP request's header, bytes.
const HEAD_MAX: u64 = 16 << 10;
/// Time limit for a client to send the header of its HTTP request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a client to read the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Listens at `at` and answers each HTTP request for metrics with the text that `metrics` returns in the format that
/// the client accepts. Each connection has its own thread; their number is limited. Returns the address; with port 0
/// the system chooses the port.
///
/// # Errors
/// Listening at the address fails.
pub fn serve(
    at: SocketAddr,
    metrics: impl Fn(TextFormat) -> String + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(at)?;
    let address = listener.local_addr()?;
    let accept = move || listener.accept().map(|(stream, _)| stream);
    let handler = move |stream: &TcpStream| answer(stream, &metrics);
    admin_socket::serve("metrics", accept, handler)?;
    Ok(address)
}

fn answer(stream: &TcpStream, metrics: &impl Fn(TextFormat) -> String) -> io::Result<()> {
    // Read to the end of the head: closing a connection with unread data resets it, and the client may lose the
    // answer.
    let mut head = BufReader::new(Timed::new(stream, REQUEST_TIMEOUT)).take(HEAD_MAX).lines();
    let line = head.next().transpose()?.unwrap_or_default();
    let mut accepted = Vec::new();
    loop {
        let field = head.next().transpose()?.unwrap_or_default();
        if field.is_empty() {
            break;
        }
        let field = field.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
        accepted.extend(field.map(|(_, types)| types.to_owned()));
    }
    let mut words = line.split_whitespace();
    let plain = "text/plain; charset=utf-8";
    let (status, content_type, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics" | "/")) => {
            let format = format(&accepted.join(","));
            ("200 OK", format.content_type(), metrics(format))
        }
        (Some("GET"), _) => ("404 Not Found", plain, "the only path is /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", plain, "the only method is GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    Timed::new(stream, ANSWER_TIMEOUT).write_all((head + &body).as_bytes())
}

/// Chooses the format by the media types of the header `Accept`, as Prometheus' client libraries do. The result is
/// OpenMetrics if the client names it (without a version, or as 1.0.0) and does not prefer the older text format.
fn format(accept: &str) -> TextFormat {
    let quality = |media: &str, version: &str| {
        let types = accept.split(',').map(|of| of.split(';').map(str::trim));
        let qualities = types.filter_map(|mut of| {
            let is_named = of.next()?.eq_ignore_ascii_case(media);
            let mut quality = 1.0;
            for parameter in of {
                let (name, value) = parameter.split_once('=')?;
                let (name, value) = (name.trim(), value.trim().trim_matches('"'));
                if name.eq_ignore_ascii_case("q") {
                    quality = value.parse::<f64>().ok()?;
                } else if name.eq_ignore_ascii_case("version") && value != version {
                    return None;
                }
            }
            is_named.then_some(quality)
        });
        qualities.fold(0.0, f64::max)
    };
    let open = quality("application/openmetrics-text", "1.0.0");
    if open > 0.0 && open >= quality("text/plain", "0.0.4") {
        TextFormat::OpenMetrics
    } else {
        TextFormat::Prometheus
    }
}

#[cfg(test)]
mod tests {
    use super::{TextFormat, format};

    #[test]
    fn the_format_is_what_the_client_prefers() {
        for accept in [
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; version=\"1.0.0\"; charset=utf-8",
            // Prometheus 2 and 3.
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        ] {
            assert_eq!(format(accept), TextFormat::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/html,*/*;q=0.8",
            "text/plain;version=0.0.4",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;version=0.0.1",
            "application/openmetrics-text;version=2.0.0,*/*",
            "application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text;q",
        ] {
            assert_eq!(format(accept), TextFormat::Prometheus, "{accept}");
        }
    }
}
