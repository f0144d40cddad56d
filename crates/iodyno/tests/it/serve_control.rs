//! The JSON protocol of the control socket, and the Python package that speaks it.

use crate::place::Place;
use crate::serve::Served;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

const SCHEMA: &str = include_str!("../../../../docs/schema/control-v1.schema.json");

/// Whether a document is a `request` or a `reply` of the schema.
fn is_valid(which: &str, document: &Value) -> bool {
    let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
    schema["anyOf"] = json!([{ "$ref": format!("#/$defs/{which}") }]);
    jsonschema::validator_for(&schema).unwrap().is_valid(document)
}

/// A connection to a server's control socket.
struct Client(BufReader<UnixStream>);

impl Client {
    fn of(place: &Place) -> Self {
        Self(BufReader::new(UnixStream::connect(place.path("ctl.sock")).unwrap()))
    }

    /// Sends a line, and returns the reply, which must be valid by the schema.
    fn say(&mut self, line: &str) -> Value {
        writeln!(self.0.get_ref(), "{line}").unwrap();
        let mut said = String::new();
        self.0.read_line(&mut said).unwrap();
        let reply = serde_json::from_str(&said).unwrap();
        assert!(is_valid("reply", &reply), "{line}: {said}");
        reply
    }

    /// Sends a request, which must be valid by the schema.
    fn ask(&mut self, mut request: Value) -> Value {
        request["version"] = 1.into();
        assert!(is_valid("request", &request), "{request}");
        self.say(&request.to_string())
    }
}

#[test]
fn requests_and_replies_follow_the_schema() {
    for words in
        ["ram:8MiB", "exflash-400g --speed native", "exflash-400g*2?state=fresh --no-floor"]
    {
        let place = Place::new();
        let served = Served::start(&place, words);
        let mut client = Client::of(&place);
        let reply = client.ask(json!({ "fault": "lost next 1", "id": "a" }));
        let effect = "volume 0: writes are acknowledged and not stored, the next 1";
        assert_eq!((&reply["in_effect"], &reply["id"]), (&json!([effect]), &json!("a")));
        assert_eq!(reply["no_effect"], Value::Null);
        let mut refused = |line: &str, code: &str| {
            let reply = client.say(line);
            assert_eq!((&reply["ok"], &reply["error"]["code"]), (&json!(false), &json!(code)));
        };
        refused(r#"{"version":1,"fault":"lost at 1TiB"}"#, "refused");
        refused(r#"{"version":1,"fault":"explode"}"#, "refused");
        refused(r#"{"version":1}"#, "request");
        refused("{]", "request");
        refused(r#"{"version":9,"status":true}"#, "version");
        let is_model = words.contains("floor");
        let reply = client.ask(json!({ "status": true }));
        let status = served.status();
        let of = |status: &Value| status.get("speed").cloned();
        assert_eq!(of(&reply["status"]), of(&status));
        assert_eq!(client.ask(json!({ "metrics": true }))["ok"], is_model);
        if is_model {
            let reply = client.ask(json!({ "fault": "latent 0" }));
            assert_eq!(reply["no_effect"], "nothing is stored there");
            let lost = client.ask(json!({ "fault": "power-off" }))["lost"].clone();
            assert_eq!(lost.as_array().map(Vec::len), Some(2));
            let reply = client.ask(json!({ "fault": "power-cut" }));
            assert_eq!(reply["error"]["message"], "the power is off");
            assert_eq!(reply["error"]["remedy"], "use power-on first");
        }
        // The text protocol is on the same connection.
        writeln!(client.0.get_ref(), "clear").unwrap();
        let mut said = String::new();
        client.0.read_line(&mut said).unwrap();
        assert!(said.starts_with(r#"{"ok":true"#), "{said}");
        client.ask(json!({ "stop": true }));
        let mut end = String::new();
        assert_eq!(client.0.read_line(&mut end).unwrap(), 0, "{end}");
    }
}

/// Tests the Python package: with pytest if it is installed, and with the plugin as an installed package registers it.
#[test]
fn the_python_package_serves_disks() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python");
    let has_pytest = Command::new("python3").args(["-c", "import pytest"]).output().unwrap();
    let pytest = ["-m", "pytest", "-q", "-p", "iodyno.pytest_plugin", "-p", "no:cacheprovider"];
    let words = if has_pytest.status.success() { &pytest[..] } else { &[] };
    let output = Command::new("python3")
        .args(words)
        .arg("tests/test_disk.py")
        .current_dir(&package)
        .env("PYTHONPATH", &package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("IODYNO", env!("CARGO_BIN_EXE_iodyno"))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}
