//! Access control of the web page: rules for the address, the `Host` and `Origin` fields, and the token.
//!
//! A page of another site can make a browser send requests to this server. It can't read the responses, and can't
//! change anything, because a POST needs this server's own `Origin`. A site whose name resolves to this machine (DNS
//! rebinding) is refused by its `Host`, or because its requests lack the token.

use crate::http::{Method, Request};
use sha2::{Digest as _, Sha256};
use std::net::{IpAddr, SocketAddr};

/// Minimum length of a token, characters.
const TOKEN_CHARS_MIN: usize = 16;
/// Maximum length of a token, characters.
const TOKEN_CHARS_MAX: usize = 256;
/// Number of random bytes of a generated token.
const TOKEN_BYTES: usize = 16;
/// Key of the token in the query of the address that the server prints.
const KEY: &str = "token";

/// A secret that a client must present.
#[derive(Clone, Debug)]
pub struct Token {
    text: String,
}

impl Token {
    /// Makes a token from a text that a user chose.
    ///
    /// # Errors
    /// The text is shorter than 16 or longer than 256 characters, or has characters other than letters, digits, `-` and
    /// `_`.
    pub fn of_text(text: &str) -> Result<Self, String> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if !(TOKEN_CHARS_MIN..=TOKEN_CHARS_MAX).contains(&text.len()) || !text.bytes().all(is_plain)
        {
            return Err(format!(
                "a token has {TOKEN_CHARS_MIN} to {TOKEN_CHARS_MAX} letters, digits, `-` and `_`"
            ));
        }
        Ok(Self { text: text.to_owned() })
    }

    /// Creates a random token of 128 bits.
    ///
    /// # Errors
    /// The kernel provides no random numbers.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0_u8; TOKEN_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            let flags = rustix::rand::GetRandomFlags::empty();
            filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
        }
        Ok(Self { text: bytes.map(|b| format!("{b:02x}")).concat() })
    }

    /// Returns the secret, to be put into the address (URL) that a user opens first.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether `given` is the token. Compares hashes, so that timing does not reveal the first difference.
    fn is(&self, given: &str) -> bool {
        Sha256::digest(given) == Sha256::digest(&self.text)
    }
}

#[derive(Debug)]
pub(crate) struct Access {
    token: Option<Token>,
    /// Name of the cookie that holds the token. Contains the port, because all ports of a host share their cookies.
    cookie: String,
}

/// Decision whether a request may be answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Granted,
    /// The address has the right token. The browser must store the token in this cookie, and open the page by its
    /// address without the token.
    KeepToken {
        cookie: String,
    },
    /// The client must present the token.
    NeedsToken,
    /// The request did not come from one of this server's own pages; the text gives the reason.
    Refused(&'static str),
}

impl Access {
    pub(crate) fn new(token: Option<Token>, address: SocketAddr) -> Self {
        Self { token, cookie: format!("iodyno-{}", address.port()) }
    }

    pub(crate) fn decide(&self, request: &Request) -> Decision {
        let host = request.field("host").unwrap_or_default();
        if self.token.is_none() && !is_loopback(host) {
            return Decision::Refused(
                "this server answers only to 127.0.0.1, localhost and [::1]: use one of these in the address",
            );
        }
        // A link from elsewhere opens a page; an image or a frame of another site would only make this server work.
        let is_opened = request.field("sec-fetch-mode") == Some("navigate")
            && request.field("sec-fetch-dest") == Some("document");
        if is_of_another_site(request) && !is_opened {
            return Decision::Refused("this request comes from a page of another site");
        }
        // Browsers name the origin in requests of a page, but not where a person opens an address.
        let origin = request.field("origin");
        let is_own = origin.and_then(|origin| origin.strip_prefix("http://")) == Some(host);
        if !is_own && (origin.is_some() || request.method == Method::Post) {
            return Decision::Refused("this request does not come from a page of this server");
        }
        let Some(token) = &self.token else { return Decision::Granted };
        if request.method == Method::Get
            && request.values(KEY).next().is_some_and(|given| token.is(&given))
        {
            let name = &self.cookie;
            let secret = &token.text;
            let cookie = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Lax");
            return Decision::KeepToken { cookie };
        }
        let of_program = request.field("authorization").and_then(|it| it.strip_prefix("Bearer "));
        let cookies = request.field("cookie").unwrap_or_default().split(';');
        let mut of_browser =
            cookies.filter_map(|it| it.trim().strip_prefix(&self.cookie)?.strip_prefix('='));
        if of_program.is_some_and(|given| token.is(given)) || of_browser.any(|it| token.is(it)) {
            Decision::Granted
        } else {
            Decision::NeedsToken
        }
    }
}

/// Whether a browser says that a page of another site, or of another port of this machine, caused the request.
pub(crate) fn is_of_another_site(request: &Request) -> bool {
    matches!(request.field("sec-fetch-site"), Some("cross-site" | "same-site"))
}

/// Address that a request asks for, without the token.
pub(crate) fn without_token(request: &Request) -> String {
    let pairs = form_urlencoded::parse(request.query.as_bytes()).filter(|(key, _)| key != KEY);
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    // Two slashes would begin the name of another host.
    let path = format!("/{}", request.path.trim_start_matches('/'));
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

/// Whether the value of a `Host` field names this machine: `127.0.0.1:8017`, `localhost`, `[::1]:80`. The port may be
/// that of a tunnel.
fn is_loopback(host: &str) -> bool {
    let is_port = |text: &str| text.is_empty() || text.parse::<u16>().is_ok();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') && is_port(port) => name,
        _ => host,
    };
    let plain = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || plain.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for host in
            ["127.0.0.1:8017", "127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8017", "[::1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8017",
            "127.0.0.1.evil.example",
            "localhost.evil.example:80",
            "127.0.0.1:x",
            "10.0.0.1:8017",
            "0.0.0.0",
            "[::]:80",
            "localhost:80:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let [a, b] = [(); 2].map(|()| Token::random().unwrap());
        assert_ne!(a.text(), b.text());
        assert!(Token::of_text(a.text()).unwrap().is(a.text()) && !a.is(b.text()) && !a.is(""));
        for text in ["", "short", "fifteen-letters", "with a blank in it", "ünicode-ünicode-ü"] {
            assert!(Token::of_text(text).is_err(), "{text}");
        }
    }
}
