//! Tables whose decimal points stand under each other. Where the columns do not fit, they go on below
//! under the same labels, as a paper would have it.

use super::Style;
use iodyno_units::text::is_hidden;

/// What a piece of text is, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Plain,
    Bold,
    Dim,
    Red,
    Yellow,
    Green,
}

/// `text` in the colour of its role.
pub(super) fn paint(text: &str, role: Role, style: Style) -> String {
    let code = match role {
        _ if !style.color || text.trim().is_empty() => return text.to_owned(),
        Role::Plain => return text.to_owned(),
        Role::Bold => "1",
        Role::Dim => "2",
        Role::Red => "31",
        Role::Yellow => "33",
        Role::Green => "32",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// A text of a file made harmless: hidden characters are escaped, and what the terminal can't show
/// is written in ASCII.
pub(super) fn clean(text: &str, style: Style) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            c if is_hidden(c) => out.extend(c.escape_default()),
            c if style.unicode || c.is_ascii() => out.push(c),
            'µ' => out.push('u'),
            '×' => out.push('x'),
            '–' | '−' => out.push('-'),
            c => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// Lines of at most so many columns, broken at blanks.
pub(super) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if width(line) + 1 + width(word) <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Columns of our own texts: none of their characters is wide.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// One field.
#[derive(Clone, Debug)]
pub(super) enum Field {
    /// Nothing belongs here.
    Blank,
    /// Nothing is known.
    Missing,
    /// Words, to the left.
    Text(String, Role),
    /// A number: what stands before its point, and the point with what stands behind it.
    Number(String, String, Role),
}

impl Field {
    pub(super) fn text(text: &str, role: Role) -> Self {
        Self::Text(text.to_owned(), role)
    }

    pub(super) fn number(text: String, role: Role) -> Self {
        // A mark behind a whole number stands where the point would.
        let is_before = |c: char| c.is_ascii_digit() || matches!(c, '-' | '<' | '>' | '=' | '~');
        let at = text.find(|c: char| !is_before(c));
        match at {
            Some(at) if at > 0 => Self::Number(text[..at].to_owned(), text[at..].to_owned(), role),
            _ => Self::Number(text, String::new(), role),
        }
    }
}

/// One column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    head: String,
    left: bool,
    fields: Vec<Field>,
}

impl Column {
    /// A column of numbers.
    pub(super) fn new(head: &str) -> Self {
        Self { head: head.to_owned(), left: false, fields: Vec::new() }
    }

    /// A column of words.
    pub(super) fn left(head: &str) -> Self {
        Self { left: true, ..Self::new(head) }
    }

    pub(super) fn push(&mut self, field: Field) {
        self.fields.push(field);
    }

    /// Whether two rows say the same words.
    fn is_same_text(&self, a: usize, b: usize) -> bool {
        match (&self.fields[a], &self.fields[b]) {
            (Field::Text(a, _), Field::Text(b, _)) => a == b,
            _ => false,
        }
    }

    /// Columns before the point, and from the point on.
    fn parts(&self) -> (usize, usize) {
        self.fields.iter().fold((1, 0), |(before, after), field| match field {
            Field::Number(b, a, _) => (before.max(width(b)), after.max(width(a))),
            _ => (before, after),
        })
    }

    fn width(&self) -> usize {
        let (before, after) = self.parts();
        let texts =
            self.fields.iter().map(|f| if let Field::Text(t, _) = f { width(t) } else { 0 });
        let numbers = if self.left { 0 } else { before + after };
        texts.max().unwrap_or(0).max(width(&self.head)).max(numbers)
    }

    fn head(&self) -> String {
        let (before, _) = self.parts();
        let columns = self.width();
        // The head of numbers ends where their whole parts do, if it fits there.
        let end = (columns - self.parts().1).max(width(&self.head)).max(before);
        if self.left {
            format!("{:<columns$}", self.head)
        } else {
            format!("{:<columns$}", format!("{:>end$}", self.head))
        }
    }

    fn field(&self, field: &Field, style: Style) -> String {
        let columns = self.width();
        let (_, after) = self.parts();
        match field {
            Field::Blank => " ".repeat(columns),
            Field::Missing => {
                let dash = if style.unicode { "–" } else { "-" };
                let before = " ".repeat(columns.saturating_sub(after + 1));
                format!(
                    "{before}{}{}",
                    paint(dash, Role::Dim, style),
                    " ".repeat(columns - width(&before) - 1)
                )
            }
            Field::Text(text, role) => {
                let blanks = " ".repeat(columns - width(text));
                paint(text, *role, style) + &blanks
            }
            Field::Number(b, a, role) => {
                let left = " ".repeat(columns - after - width(b));
                let right = " ".repeat(after - width(a));
                format!("{left}{}{right}", paint(&format!("{b}{a}"), *role, style))
            }
        }
    }
}

/// Blanks between two columns.
const GAP: usize = 2;

/// The table: a line of heads and one for each row, and again for the columns that did not fit. Of
/// rows under the same label the first tells it; rows of which nothing is known are left out, and so
/// are headings (rows of a label alone) without rows.
pub(super) fn lines(labels: &[Column], columns: &[Column], style: Style) -> Vec<String> {
    let gap = " ".repeat(GAP);
    let label_width: usize = labels.iter().map(|c| c.width() + GAP).sum();
    let available = style.columns().saturating_sub(label_width);
    let mut lines = Vec::new();
    let mut rest = columns;
    while !rest.is_empty() {
        let mut taken = 0;
        let mut used = 0;
        while let Some(column) = rest.get(taken) {
            let wider = used + column.width() + if taken > 0 { GAP } else { 0 };
            if taken > 0 && wider > available {
                break;
            }
            used = wider;
            taken += 1;
        }
        let (part, others) = rest.split_at(taken);
        rest = others;
        let shown = || labels.iter().chain(part);
        let heads: Vec<String> = shown().map(|c| paint_head(&c.head(), style)).collect();
        if shown().any(|c| !c.head.trim().is_empty()) {
            lines.push(heads.join(&gap));
        }
        let rows = part.first().map_or(0, |c| c.fields.len());
        let mut before = None;
        let mut heading = None;
        for row in 0..rows {
            if part.iter().all(|c| matches!(c.fields[row], Field::Missing)) {
                continue;
            }
            let line = |row: usize| shown().map(move |c| c.field(&c.fields[row], style));
            if part.iter().all(|c| matches!(c.fields[row], Field::Blank)) {
                heading = Some(line(row).collect::<Vec<_>>().join(&gap));
                continue;
            }
            if let Some(heading) = heading.take() {
                lines.push(heading);
                before = None;
            }
            let mut fields = Vec::new();
            for (i, column) in shown().enumerate() {
                let told = i == 0 && before.is_some_and(|b| column.is_same_text(b, row));
                let field = if told { &Field::Blank } else { &column.fields[row] };
                fields.push(column.field(field, style));
            }
            before = Some(row);
            lines.push(fields.join(&gap));
        }
    }
    lines
}

/// A head keeps its blanks outside the colour, so that they can be cut at the end of a line.
fn paint_head(head: &str, style: Style) -> String {
    let bare = head.trim_end();
    paint(bare, Role::Dim, style) + &head[bare.len()..]
}
