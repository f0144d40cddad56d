//! The words of `iodyno fault`, scenario files and records: a fault that is read can be written, and is read again as
//! the same.

use iodyno_live::fault_command::{Ask, at_interface_in_words, in_words, parse as read};

/// Parses a line; true where it is a command.
pub fn parse(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let words: Vec<&str> = text.split_whitespace().collect();
    match read(&words) {
        Ok(ask) => {
            let written = match &ask {
                Ask::Fault(fault) => Some(in_words(fault)),
                Ask::Interface { volume, fault } => Some(at_interface_in_words(*volume, fault)),
                _ => None,
            };
            if let Some(written) = written {
                let words: Vec<&str> = written.split(' ').collect();
                assert_eq!(read(&words).as_ref(), Ok(&ask), "{written}");
            }
            true
        }
        Err(message) => {
            assert!(!message.is_empty());
            false
        }
    }
}
