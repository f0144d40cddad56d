//! The document model: a document contains sections, and a section contains blocks such as paragraphs and figures.

use crate::{Figure, Table, Tone};

/// A document with title, sections and embedded data, which can be rendered as HTML, Markdown or CSV.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Main heading of the document, and title of the browser window.
    pub title: String,
    /// Short lines below the title, such as test, target and time.
    pub about: Vec<String>,
    /// Prominent stamp on every page and figure, such as `NON-CONFORMANT`; empty for none.
    pub stamp: String,
    /// Sections of the document. The first one fills the first screen, so it must not mislead a reader who reads no
    /// further.
    pub sections: Vec<Section>,
    /// Machine-readable data embedded in the page, such as runs.
    pub embedded: Vec<Embedded>,
    /// Name and version of the generating program, shown in the footer.
    pub made_by: String,
    /// Links to other pages of the web server that shows the document, as pairs of text and address. Empty if the
    /// document is a file.
    pub links: Vec<(String, String)>,
    /// Links to views of the same data, such as one view per metric; None if the document is a file.
    pub views: Option<Views>,
}

/// Links between views of the same data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Views {
    /// Property in which the views differ, such as `Metric`.
    pub label: String,
    /// Text and address of each view.
    pub links: Vec<(String, String)>,
    /// Index of the view that the document shows.
    pub current: usize,
}

/// A part of a document with a heading and an id for links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Link target of the section, unique in the document.
    pub id: String,
    /// Heading of the section, also used in the navigation.
    pub title: String,
    /// Content of the section, in reading order.
    pub blocks: Vec<Block>,
    /// Whether the section is collapsed until the reader opens it, for data that few readers need. In print, the
    /// section is expanded.
    pub folded: bool,
}

/// A paragraph, figure, table or other block of a section's content.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a page has few blocks")]
pub enum Block {
    /// A paragraph. Text between backquotes is shown as code.
    Text(String),
    /// Key numbers, side by side.
    Headlines(Vec<Headline>),
    /// Verdicts, the most severe first.
    Verdicts(Vec<Verdict>),
    /// A figure drawn over the full width of the page.
    Figure(Figure),
    /// Small figures for comparison, in a grid, with equal axes.
    Gallery(Vec<Figure>),
    /// A table in its own right, as opposed to the data behind a figure.
    Table(Table),
    /// Facts grouped by topic: each topic with its pairs of name and value.
    Facts(Vec<(String, Vec<(String, String)>)>),
    /// Verbatim text, such as a command or a file.
    Code {
        /// Caption shown above the text; may be empty.
        caption: String,
        /// Text shown unchanged, including its line breaks.
        text: String,
    },
}

/// A key number with its context, shown large.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headline {
    /// Subject of the number, such as the name of a measurement.
    pub name: String,
    /// Formatted number with its unit.
    pub value: String,
    /// Confidence interval of the number, or another statement on its certainty; may be empty.
    pub interval: String,
    /// Short additional facts, such as the test conditions, p99 and the number of I/Os.
    pub beside: Vec<String>,
    /// Severity of the number, shown by colour and by a symbol such as `!`.
    pub tone: Tone,
}

/// A judgement that confirms or limits the validity of the numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Code of the verdict, such as `STEADY_NOT_REACHED`; may be empty.
    pub code: String,
    /// Severity of the verdict, shown by colour and by a symbol such as `!`.
    pub tone: Tone,
    /// Problem, reason and remedy, in plain words.
    pub text: String,
    /// Names of the affected measurements; may be empty.
    pub of: Vec<String>,
}

/// Machine-readable data embedded in the document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedded {
    /// Id of the data element, such as `iodyno-run-1`.
    pub id: String,
    /// Media type of the data, such as `application/json`; never that of a script.
    pub media_type: String,
    /// JSON text, unescaped. Rendering escapes sequences that would end the element.
    pub text: String,
}
