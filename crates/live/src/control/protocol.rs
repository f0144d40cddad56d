//! The JSON protocol of the control socket, version 1: a line that begins with `{` is a request, and its answer is one JSON
//! object. `docs/schema/control-v1.schema.json` describes both.
//!
//! ```text
//! → {"version":1,"fault":"lost next 1"}   ← {"version":1,"ok":true,"in_effect":["volume 0: writes are …"],"no_effect":null,…}
//! → {"version":1,"fault":"explode"}       ← {"version":1,"ok":false,"error":{"code":"refused","message":"…","remedy":"…"}}
//! → {"version":1,"status":true}           ← {"version":1,"ok":true,"status":{…}}
//! ```
//! Within a version, keys are added and never changed or removed.

use serde::Deserialize;
use serde_json::{Value, json};

/// Version that requests must state in the key `version`.
const VERSION: u64 = 1;
/// Commands that have their own key in a request (`"stop":true`). Fault commands share the key `fault`.
const KEYS: [&str; 3] = ["status", "metrics", "stop"];
/// Remedy in the answer to a refused command, if the error message has none.
const LIST: &str = "`iodyno fault --help` lists the faults and their scopes";
/// Beginnings of the remedy at the end of an error message.
const REMEDIES: [&str; 4] = [": use ", ": leave ", ": serve ", ": flush"];

/// A request. Exactly one of the keys `fault`, `status`, `metrics` and `stop` must be set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    version: u64,
    /// Identifier that the client chose for the request. The reply repeats it.
    #[serde(default)]
    id: Value,
    /// A fault command in the syntax of `iodyno fault`, such as `slow x10`.
    fault: Option<String>,
    #[serde(default)]
    status: bool,
    #[serde(default)]
    metrics: bool,
    #[serde(default)]
    stop: bool,
}

/// Returns the JSON answer to the JSON request `line`. Calls the parameter `answer` to execute a command of the text
/// protocol.
pub(super) fn answer(line: &str, answer: &dyn Fn(&str) -> Value) -> Value {
    let request: Request = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(e) => {
            let remedy = r#"use a request such as {"version":1,"fault":"lost next 1"}"#;
            return failed(&Value::Null, "request", &e.to_string(), remedy);
        }
    };
    let id = &request.id;
    if request.version != VERSION {
        let message = format!("version {} is not known to this server", request.version);
        return failed(id, "version", &message, "use version 1");
    }
    let keys = [request.status, request.metrics, request.stop];
    let mut given = KEYS.iter().zip(keys).filter(|of| of.1).map(|of| *of.0);
    let (command, more) = match (&request.fault, given.next()) {
        (Some(fault), key) => {
            let words: Vec<&str> = fault.split_whitespace().collect();
            if let Some(key) = KEYS.iter().find(|key| words.first() == Some(key)) {
                let remedy = format!(r#"use {{"version":1,"{key}":true}}"#);
                return failed(id, "request", &format!("`{key}` is not a fault"), &remedy);
            }
            (words.join(" "), key.is_some())
        }
        (None, Some(key)) => (key.to_owned(), given.next().is_some()),
        (None, None) => (String::new(), true),
    };
    if more {
        let remedy = "use one of the keys fault, status, metrics and stop";
        return failed(id, "request", "the request must have exactly one command", remedy);
    }
    reply(&request, answer(&command))
}

/// Converts the answer of the text protocol to a reply of this protocol.
fn reply(request: &Request, mut said: Value) -> Value {
    let id = &request.id;
    if let Some(message) = said["error"].as_str() {
        let at = REMEDIES.iter().filter_map(|words| message.rfind(words)).max();
        let (message, remedy) =
            at.map_or((message, LIST), |at| (&message[..at], &message[at + 2..]));
        return failed(id, "refused", message, remedy);
    }
    let mut reply = json!({ "version": VERSION, "id": id, "ok": true });
    if request.status {
        reply["status"] = said;
    } else if request.metrics {
        reply["metrics"] = said["text"].take();
    } else {
        let lines = said["text"].as_str().unwrap_or_default().lines();
        reply["in_effect"] = lines.collect();
        if !request.stop {
            reply["no_effect"] = said["no_effect"].take();
            reply["repaired_by"] = said["repaired_by"].take();
            reply["lost"] = match said["taken"].take() {
                Value::Null => json!([]),
                lost => lost,
            };
        }
    }
    reply
}

fn failed(id: &Value, code: &str, message: &str, remedy: &str) -> Value {
    let error = json!({ "code": code, "message": message, "remedy": remedy });
    json!({ "version": VERSION, "id": id, "ok": false, "error": error })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answer of a test server that knows the commands `status` and `lost`, and refuses all others.
    fn said(line: &str) -> Value {
        answer(line, &|command| match command {
            "status" => json!({ "volumes": [] }),
            "lost" => json!({ "ok": true, "text": "a\nb", "no_effect": "why" }),
            "explode" => json!({ "error": "there is no fault: `explode`: use lost: now" }),
            _ => json!({ "error": format!("volume 1 hears `{command}`") }),
        })
    }

    #[test]
    fn answers_are_objects() {
        for (line, says) in [
            (
                r#"{"version":1,"id":[7],"status":true}"#,
                json!({ "id": [7], "ok": true, "status": { "volumes": [] } }),
            ),
            (
                r#"{"version":1,"fault":"lost"}"#,
                json!({ "id": null, "ok": true, "in_effect": ["a", "b"], "no_effect": "why", "repaired_by": null, "lost": [] }),
            ),
        ] {
            let mut says = says;
            says["version"] = 1.into();
            assert_eq!(said(line), says, "{line}");
        }
    }

    #[test]
    fn errors_have_a_code_and_a_remedy() {
        for (line, code, message, remedy) in [
            (
                r#"{"version":1,"fault":"explode"}"#,
                "refused",
                "there is no fault: `explode`",
                "use lost: now",
            ),
            (r#"{"version":1,"fault":" lost\n 1"}"#, "refused", "volume 1 hears `lost 1`", LIST),
            (r#"{"version":2,"status":true}"#, "version", "version 2 is not", "use version 1"),
            (
                r#"{"version":1,"fault":"stop"}"#,
                "request",
                "`stop` is not a fault",
                r#"use {"version":1,"stop":true}"#,
            ),
            (
                r#"{"version":1,"stop":true,"fault":"lost"}"#,
                "request",
                "exactly one command",
                "use one of the keys",
            ),
            (
                r#"{"version":1,"stop":true,"status":true}"#,
                "request",
                "exactly one command",
                "use one of the keys",
            ),
            (
                r#"{"version":1,"stop":false}"#,
                "request",
                "exactly one command",
                "use one of the keys",
            ),
            (
                r#"{"version":1,"faults":"lost"}"#,
                "request",
                "unknown field `faults`",
                "use a request such as",
            ),
            (r#"{"fault":"lost"}"#, "request", "missing field `version`", "use a request such as"),
            ("{", "request", "EOF", "use a request such as"),
        ] {
            let reply = said(line);
            let error = &reply["error"];
            assert_eq!((&reply["ok"], &error["code"]), (&json!(false), &json!(code)), "{line}");
            let text = |key: &str| error[key].as_str().unwrap().to_owned();
            assert!(text("message").contains(message), "{line}: {error}");
            assert!(text("remedy").starts_with(remedy), "{line}: {error}");
        }
    }
}
