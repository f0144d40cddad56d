//! The grammar of filters:
//!
//! ```text
//! any       = all { OR all }
//! all       = not { AND not }
//! not       = NOT not | "(" any ")" | condition
//! condition = operand compare operand
//!           | operand [NOT] IN "(" literal { "," literal } ")"
//!           | operand [NOT] BETWEEN operand AND operand
//!           | operand [NOT] LIKE text
//!           | operand IS [NOT] NULL
//! compare   = "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">="
//! operand   = header | path | literal
//! path      = "/" name { "/" name }
//! literal   = text | number | TRUE | FALSE
//! ```
//!
//! Keywords may be in upper or lower case. Once an alternative has begun to match, an error is final: there is no
//! backtracking.

use super::number::Number;
use super::{
    Comparison, Condition, FILTER_BYTES_MAX, FILTER_NESTING_MAX, Header, Literal, Operand, Pattern,
    Step, is_plain,
};
use core::ops::Range;
use iodyno_catalog::{File, Problem};
use winnow::Parser;
use winnow::combinator::{alt, opt, preceded, repeat, separated};
use winnow::error::{ErrMode, ModalResult, ParserError};
use winnow::stream::{LocatingSlice, Location, Stateful, Stream};
use winnow::token::{one_of, take_till, take_while};

/// Parser input: the rest of the filter's text, and the current nesting depth of parentheses and NOT.
type Input<'a> = Stateful<LocatingSlice<&'a str>, u32>;
type Parsed<T> = ModalResult<T, Fault>;

pub(super) fn condition(text: &str) -> Result<Condition, Problem> {
    let (name, remedy) = ("filter", "use fewer values, or split the subscription");
    if text.len() > FILTER_BYTES_MAX {
        let message =
            format!("the filter has {} bytes, but the limit is {FILTER_BYTES_MAX}", text.len());
        return Err(Problem::new(name, message).with_help(remedy));
    }
    let mut input = Stateful { input: LocatingSlice::new(text), state: 0 };
    let parsed = any(&mut input).and_then(|it| match spaces(&mut input) {
        _ if rest(&input).is_empty() => Ok(it),
        _ => Err(Fault::unexpected(&mut input, "AND, OR or the end")),
    });
    parsed.map_err(|e| {
        let fault = e.into_inner().unwrap_or_default();
        let file = File {
            origin: name.into(),
            name: name.into(),
            text: text.into(),
            is_named_by_file: false,
        };
        Problem::at(&file, fault.span, fault.message, fault.help)
    })
}

#[derive(Debug, Default)]
struct Fault {
    span: Range<usize>,
    message: String,
    help: Option<String>,
}

impl ParserError<Input<'_>> for Fault {
    type Inner = Self;

    /// Creates the error of a parser alternative that does not match, without details.
    fn from_input(_: &Input<'_>) -> Self {
        Self::default()
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

impl Fault {
    fn at(
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> ErrMode<Self> {
        ErrMode::Cut(Self { span, message: message.into(), help: Some(help.into()) })
    }

    /// Creates the error "`expected` is missing here" for the current position.
    fn unexpected(input: &mut Input<'_>, expected: &str) -> ErrMode<Self> {
        let _ = spaces(input);
        let (at, rest) = (input.current_token_start(), rest(input));
        let word = rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len());
        let length = word.max(rest.chars().next().map_or(0, char::len_utf8));
        let message = match &rest[..length] {
            "" => format!("the filter ends where {expected} is expected"),
            found => format!("`{found}` was found where {expected} is expected"),
        };
        ErrMode::Cut(Self { span: at..at + length, message, help: None })
    }
}

fn rest<'a>(input: &Input<'a>) -> &'a str {
    **input.as_ref()
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn spaces(input: &mut Input<'_>) -> Parsed<()> {
    take_while(0.., char::is_whitespace).void().parse_next(input)
}

/// Skips spaces, then applies `parser`.
fn token<'a, T>(
    parser: impl Parser<Input<'a>, T, ErrMode<Fault>>,
) -> impl Parser<Input<'a>, T, ErrMode<Fault>> {
    preceded(spaces, parser)
}

fn symbol<'a>(text: &'static str) -> impl Parser<Input<'a>, (), ErrMode<Fault>> {
    token(text).void()
}

fn word<'a>(input: &mut Input<'a>) -> Parsed<&'a str> {
    token(take_while(1.., is_of_word)).parse_next(input)
}

fn keyword<'a>(wanted: &'static str) -> impl Parser<Input<'a>, (), ErrMode<Fault>> {
    word.verify(move |found: &str| found.eq_ignore_ascii_case(wanted)).void()
}

/// Applies `parser`, which must match: a mismatch is a syntax error, and no alternative is tried.
fn expect<'a, T>(
    expected: &'static str,
    mut parser: impl Parser<Input<'a>, T, ErrMode<Fault>>,
) -> impl Parser<Input<'a>, T, ErrMode<Fault>> {
    move |input: &mut Input<'a>| {
        let start = input.checkpoint();
        parser.parse_next(input).map_err(|e| {
            if e.is_backtrack() {
                input.reset(&start);
                return Fault::unexpected(input, expected);
            }
            e
        })
    }
}

fn any(input: &mut Input<'_>) -> Parsed<Condition> {
    separated(1.., all, keyword("OR")).map(Condition::any).parse_next(input)
}

fn all(input: &mut Input<'_>) -> Parsed<Condition> {
    separated(1.., negation, keyword("AND")).map(Condition::all).parse_next(input)
}

fn negation(input: &mut Input<'_>) -> Parsed<Condition> {
    if opt(keyword("NOT")).parse_next(input)?.is_some() {
        return Ok(Condition::Not(Box::new(nested(negation, input)?)));
    }
    if opt(symbol("(")).parse_next(input)?.is_some() {
        let inner = nested(any, input)?;
        expect("AND, OR or `)`", symbol(")")).parse_next(input)?;
        return Ok(inner);
    }
    comparison(input)
}

/// Parses the content of parentheses or the operand of NOT, one nesting level deeper.
fn nested<'a>(
    parser: fn(&mut Input<'a>) -> Parsed<Condition>,
    input: &mut Input<'a>,
) -> Parsed<Condition> {
    if input.state == FILTER_NESTING_MAX {
        let end = input.previous_token_end();
        let message = format!("parentheses and NOT are nested more than {FILTER_NESTING_MAX} deep");
        return Err(Fault::at(
            end.saturating_sub(1)..end,
            message,
            "remove parentheses that are not needed",
        ));
    }
    input.state += 1;
    let parsed = parser(input);
    input.state -= 1;
    parsed
}

fn comparison(input: &mut Input<'_>) -> Parsed<Condition> {
    let (left, left_span) = spanned_operand(input)?;
    if opt(keyword("IS")).parse_next(input)?.is_some() {
        let is_not = opt(keyword("NOT")).parse_next(input)?.is_some();
        expect("NULL", keyword("NULL")).parse_next(input)?;
        return Ok(negated(is_not, Condition::IsNull(left)));
    }
    let is_not = opt(keyword("NOT")).parse_next(input)?.is_some();
    if opt(keyword("IN")).parse_next(input)?.is_some() {
        expect("`(`", symbol("(")).parse_next(input)?;
        let item = expect("a text, a number, true or false", token(literal.with_span()));
        let items: Vec<_> = separated(1.., item, symbol(",")).parse_next(input)?;
        expect("`,` or `)`", symbol(")")).parse_next(input)?;
        let items = items.into_iter().map(|(item, span)| compared_with(&left, item, span));
        let items = items.collect::<Parsed<_>>()?;
        return Ok(negated(is_not, Condition::In(left, items)));
    }
    if opt(keyword("BETWEEN")).parse_next(input)?.is_some() {
        let low = operand_beside(&left, input)?;
        expect("AND", keyword("AND")).parse_next(input)?;
        let high = operand_beside(&left, input)?;
        return Ok(negated(is_not, Condition::Between(left, low, high)));
    }
    if opt(keyword("LIKE")).parse_next(input)?.is_some() {
        let text = token(quoted.with_span());
        let (text, span) = expect("a pattern in quotes", text).parse_next(input)?;
        return Ok(negated(is_not, Condition::Like(left, pattern(&text, span)?)));
    }
    if is_not {
        return Err(Fault::unexpected(input, "IN, BETWEEN or LIKE"));
    }
    let compare = alt(Comparison::NAMES.map(|(name, it)| symbol(name).value(it)));
    let names = "a comparison (=, !=, <, <=, >, >=, IN, BETWEEN, LIKE or IS NULL)";
    let compare = expect(names, compare).parse_next(input)?;
    let right = operand_beside(&left, input)?;
    let left = match left {
        Operand::Literal(left) => Operand::Literal(compared_with(&right, left, left_span)?),
        left => left,
    };
    Ok(Condition::Compare(left, compare, right))
}

fn negated(is_not: bool, condition: Condition) -> Condition {
    if is_not { Condition::Not(Box::new(condition)) } else { condition }
}

/// Parses the second operand of a comparison; `other` is the first, which determines how literals are
/// converted.
fn operand_beside(other: &Operand, input: &mut Input<'_>) -> Parsed<Operand> {
    match spanned_operand(input)? {
        (Operand::Literal(found), span) => compared_with(other, found, span).map(Operand::Literal),
        (found, _) => Ok(found),
    }
}

/// Converts a literal for comparison with another operand. If the other operand is `time`, text is parsed as a time.
/// If the other operand is another header of a message, the literal must be a possible value of this header.
fn compared_with(other: &Operand, literal: Literal, span: Range<usize>) -> Parsed<Literal> {
    let (Operand::Header(header), Literal::Text(text)) = (other, &literal) else {
        return Ok(literal);
    };
    match header {
        Header::Time => {
            let time = text.parse::<jiff::Timestamp>().map_err(|_| {
                let help = "give a time as '2026-11-23T09:30:00Z', or in ns since 1970";
                Fault::at(span, "this is not a time", help)
            });
            Ok(Literal::Number(Number::Whole(time?.as_nanosecond())))
        }
        Header::Number | Header::Publisher | Header::Sequence
            if Number::of_text(text).is_none() =>
        {
            let help =
                "compare messages, publishers and sequences with a number, such as `publisher = 7`";
            Err(Fault::at(span, "this is not a number", help))
        }
        Header::Kind if text != "publish" && text != "delete" => {
            Err(Fault::at(span, "this kind does not exist", "the kinds are 'publish' and 'delete'"))
        }
        _ => Ok(literal),
    }
}

fn spanned_operand(input: &mut Input<'_>) -> Parsed<(Operand, Range<usize>)> {
    let operand = alt((path.map(Operand::Path), literal.map(Operand::Literal), header));
    expect("a header, a path or a value", token(operand.with_span())).parse_next(input)
}

fn header(input: &mut Input<'_>) -> Parsed<Operand> {
    let (found, span) = word.with_span().parse_next(input)?;
    let is_named = |name: &&str| found.eq_ignore_ascii_case(name);
    if let Some((_, header)) = Header::NAMES.iter().find(|(name, _)| is_named(name)) {
        return Ok(Operand::Header(*header));
    }
    let (message, help) = match () {
        () if found.eq_ignore_ascii_case("null") => {
            ("a comparison with NULL is never true".to_owned(), "use `/field IS NULL`".to_owned())
        }
        () if KEYWORDS.iter().any(is_named) => {
            let message =
                format!("`{found}` was found where a header, a path or a value is expected");
            (
                message,
                format!("use `/{found}` for a field of that name, and `'{found}'` for a text"),
            )
        }
        () => {
            let names: Vec<_> = Header::NAMES.iter().map(|(name, _)| *name).collect();
            let help = format!(
                "use `/{found}` for a field of the body, and `'{found}'` for a text; the headers are {}",
                names.join(", ")
            );
            (format!("there is no header `{found}`"), help)
        }
    };
    Err(Fault::at(span, message, help))
}

const KEYWORDS: [&str; 7] = ["AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS"];

fn path(input: &mut Input<'_>) -> Parsed<Vec<Step>> {
    let name = alt((quoted, take_while(1.., is_plain).map(str::to_owned)));
    let name = expect(
        "a name, in quotes if it has characters other than letters, digits and _-.@:$#",
        name,
    );
    repeat(1.., preceded('/', name.map(Step::new))).parse_next(input)
}

fn literal(input: &mut Input<'_>) -> Parsed<Literal> {
    let bool = |input: &mut Input<'_>| {
        alt((keyword("TRUE").value(true), keyword("FALSE").value(false))).parse_next(input)
    };
    alt((quoted.map(Literal::Text), number.map(Literal::Number), bool.map(Literal::Bool)))
        .parse_next(input)
}

/// Parses text in single or double quotes. A quote inside the text is written twice.
fn quoted(input: &mut Input<'_>) -> Parsed<String> {
    let (quote, span) = one_of(['\'', '"']).with_span().parse_next(input)?;
    let mut text = String::new();
    loop {
        text.push_str(take_till(0.., quote).parse_next(input)?);
        if opt(quote).parse_next(input)?.is_none() {
            let help = format!("close the text with {quote}; inside the text, double each {quote}");
            return Err(Fault::at(span, "the text does not end", help));
        }
        if opt(quote).parse_next(input)?.is_none() {
            return Ok(text);
        }
        text.push(quote);
    }
}

fn number(input: &mut Input<'_>) -> Parsed<Number> {
    let digits = || take_while(1.., |c: char| c.is_ascii_digit());
    let sign = || opt(one_of(['-', '+']));
    let number = (
        sign(),
        digits(),
        opt(('.', digits())),
        opt((one_of(['e', 'E']), sign(), digits())),
        take_while(0.., is_of_word),
    );
    let (text, span) = number.take().with_span().parse_next(input)?;
    Number::of_text(text).ok_or_else(|| {
        let help = "use numbers as in JSON, up to 1.8e308; put a text in quotes";
        Fault::at(span, "this is not a number", help)
    })
}

fn pattern(text: &str, span: Range<usize>) -> Parsed<Pattern> {
    Pattern::parse(text).map_err(|_| {
        let help = "use two backslashes for a literal backslash";
        Fault::at(span, "the pattern ends in a single backslash", help)
    })
}
