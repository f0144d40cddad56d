//! Reading back the data embedded in a page.

/// Texts of the data elements whose ids begin with `prefix`, in page order. Empty for a page from another program.
pub fn embedded<'a>(page: &'a str, prefix: &str) -> Vec<&'a str> {
    const OPEN: &str = "<script type=\"application/json\" id=\"";
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find(OPEN) {
        rest = &rest[at + OPEN.len()..];
        // Valid ids have only letters, digits, dashes and underscores.
        let Some((id, after)) = rest.split_once("\">") else { break };
        let Some((text, after)) = after.split_once("</script>") else { break };
        if id.starts_with(prefix) {
            found.push(text);
        }
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Embedded};

    #[test]
    fn embedded_texts_are_read_back() {
        let hostile = r#"{"a":"</script><script>alert(1)</script><!--"}"#;
        let document = Document {
            embedded: vec![
                Embedded {
                    id: "iodyno-run-1".to_owned(),
                    media_type: "application/json".to_owned(),
                    text: hostile.to_owned(),
                },
                Embedded {
                    id: "other-1".to_owned(),
                    media_type: "application/json".to_owned(),
                    text: "1".to_owned(),
                },
            ],
            ..Document::default()
        };
        let page = crate::html::page(&document);
        let found = embedded(&page, "iodyno-run-");
        assert_eq!(found.len(), 1);
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(found[0]), value(hostile));
        assert!(embedded("<html></html>", "iodyno-run-").is_empty());
        assert!(embedded("<script type=\"application/json\" id=\"iodyno-run-1", "i").is_empty());
    }
}
