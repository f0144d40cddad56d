//! Tests the page in a real browser, with and without scripts, on screen and in print.
//!
//! Tests that need Chromium are in `in_a_browser` and are ignored by default; `./test` runs them where Chromium is
//! installed.

use crate::browser;
use crate::gallery;
use crate::sample;

use iodyno_page::document::Verdict;
use iodyno_page::{Block, Document, Figure, Section, Tone, csv, html};
use sha2::{Digest as _, Sha256};

#[test]
fn pages_are_small_and_load_nothing() {
    let empty = html::page(&Document::default());
    let typical = html::page(&sample::typical());
    println!("empty {} bytes, typical {} bytes", empty.len(), typical.len());
    assert!(empty.len() < 60_000, "{}", empty.len());
    assert!(typical.len() < 300_000, "{}", typical.len());
    for page in [&empty, &typical, &html::page(&sample::dense(8000))] {
        let addresses = page.matches("http").count();
        let names = page.matches("http://www.w3.org/2000/svg").count()
            + page.matches("http-equiv").count()
            + page.matches("https://github.com/leeoniya/uPlot").count();
        // The only addresses are a name of XML and one in the comment of a licence: nothing is loaded.
        assert_eq!(addresses, names);
        assert!(!page.contains("src=") && !page.contains("url(h") && !page.contains("@import"));
        assert!(page.contains("default-src &#39;none&#39;"));
    }
    assert!(!typical.contains("uPlot=function"));
    assert_eq!(html::page(&sample::typical()), typical, "equal documents give equal bytes");
}

#[test]
fn a_stamp_is_at_the_head_at_every_figure_and_on_every_sheet() {
    let page = html::page(&sample::report());
    let stamps = page.matches("<bdi>NON-CONFORMANT</bdi>").count();
    assert_eq!(stamps, 1 + page.matches("<div class=\"frame\">").count());
    // CSS escapes: N, O, N.
    assert!(page.contains("@page{@top-right{content:\"\\4e \\4f \\4e "));
    let page = html::page(&sample::typical());
    assert!(!page.contains("class=\"stamp\"") && !page.contains("@page{@top"));
}

/// Warnings and errors are never folded, and a single note is not folded alone.
#[test]
fn many_notes_are_folded_and_warnings_are_not() {
    use Tone::{Bad, Good, Note, Warning};
    let page = |tones: &[Tone]| {
        let verdict = |(n, &tone): (usize, &Tone)| {
            let (code, text, of) = (format!("CODE-{n}"), "words".to_owned(), Vec::new());
            Verdict { code, tone, text, of }
        };
        let verdicts = tones.iter().enumerate().map(verdict).collect();
        let (id, title, folded) = ("first".into(), "First".into(), false);
        let sections = vec![Section { id, title, blocks: vec![Block::Verdicts(verdicts)], folded }];
        html::page(&Document { sections, ..Document::default() })
    };
    for (tones, folded) in [
        (&[Bad, Warning, Good, Note, Note, Note][..], 0),
        (&[Bad, Warning, Note, Note, Note, Note], 2),
        (&[Note; 9], 7),
        (&[Warning; 9], 0),
        (&[], 0),
    ] {
        let page = page(tones);
        let (shown, more) = page.split_once("<details class=\"more\">").unwrap_or((&page, ""));
        let codes = |text: &str| text.matches("CODE-").count();
        assert_eq!((codes(shown), codes(more)), (tones.len() - folded, folded), "{tones:?}");
        assert_eq!(more.contains(&format!("{folded} further notes")), folded > 0);
    }
}

#[test]
fn hostile_text_stays_text() {
    let page = html::page(&sample::hostile());
    for bad in ["<script>window", "<img", "<svg onload", "onerror=\"", "type=\"text/javascript\""] {
        assert!(!page.contains(bad), "{bad}");
    }
    // Elements of scripts are those of the page: its own, two for data of each figure at most, the embedded.
    let ends = page.matches("</script").count();
    assert_eq!(ends, page.matches("<script").count());
    assert!(ends <= 2 * 3 + 2, "{ends}");
}

/// Text between backquotes is code, with its markup escaped; a single backquote is literal. Flags of a command are not
/// broken if they fit the line.
#[test]
fn commands_are_set_as_code() {
    let page = |block: Block| {
        let (id, title, folded) = ("first".into(), "First".into(), false);
        let sections = vec![Section { id, title, blocks: vec![block], folded }];
        html::page(&Document { sections, ..Document::default() })
    };
    let text = |text: &str| page(Block::Text(text.to_owned()));
    let found = text("use `a <b>` and `c`, not d");
    assert!(found.contains("use <code>a &#60;b&#62;</code> and <code>c</code>, not d</p>"));
    assert!(text("it`s <i>").contains("it`s &#60;i&#62;</p>"));
    let code = |text: &str| page(Block::Code { caption: String::new(), text: text.to_owned() });
    let flag = "<span class=\"flag\">--b&#60;</span>";
    assert!(code("a-c --b< 1").contains(&format!("<code>a-c {flag} 1</code>")));
    assert!(code("a\n  b").contains("<code>a\n  b</code>"));
}

/// Vendored files equal the released ones: uPlot as in `npm pack uplot@1.6.32`, and the accessibility checker of the
/// tests.
#[test]
fn vendored_files_are_those_of_their_manifests() {
    for folder in ["web/uplot-1.6.32", "tests/vendor/axe-core-4.14.1"] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let manifest = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
        assert_eq!(manifest.lines().count(), 3);
        for line in manifest.lines() {
            let (sum, name) = line.split_once("  ").unwrap();
            let digest = Sha256::digest(std::fs::read(folder.join(name)).unwrap());
            let bytes = (0..64).step_by(2).map(|i| u8::from_str_radix(&sum[i..i + 2], 16).unwrap());
            assert!(digest.iter().copied().eq(bytes), "{name}");
        }
    }
}

/// Tests that use a browser.
mod in_a_browser {
    use std::fmt::Write as _;

    use iodyno_page::{Cell, Column, Quantity, Table};
    use serde_json::{Value, json};

    use super::browser::{Key, Tab};
    use super::*;

    /// The centre of a figure's panel in the window, or another point as fractions of the panel's size.
    fn place(tab: &mut Tab, figure: &str, panel: usize, (x, y): (f64, f64)) -> (f64, f64) {
        let script = format!(
            "(() => {{ const figure = document.getElementById('figure-{figure}'); figure.scrollIntoView({{ block: 'center' }});\
             const svg = figure.querySelector('svg.chart'), box = svg.getBoundingClientRect();\
             const at = JSON.parse(figure.querySelector('.scales').textContent).panels[{panel}].box, k = box.width / svg.viewBox.baseVal.width;\
             return [box.x + (at.x + at.width * {x}) * k, box.y + (at.y + at.height * {y}) * k]; }})()"
        );
        let at = tab.eval(&script);
        tab.settle();
        let at = if at.is_null() { at } else { tab.eval(&script) };
        (at[0].as_f64().unwrap(), at[1].as_f64().unwrap())
    }

    fn ticks(tab: &mut Tab, figure: &str) -> String {
        tab.text(&format!(
            "[...document.querySelectorAll('#figure-{figure} .axis.x .tick:not(.off) text')].map((it) => it.textContent).join(' ')"
        ))
    }

    /// A document of one figure.
    fn of_figure(figure: Figure) -> Document {
        let blocks = vec![Block::Figure(figure)];
        let section = Section { id: "s".into(), title: "Section".into(), blocks, folded: false };
        Document { title: "Run".into(), sections: vec![section], ..Document::default() }
    }

    /// The complete data of a figure, as CSV.
    fn data(document: &Document, id: &str) -> String {
        let blocks = document.sections.iter().flat_map(|section| &section.blocks);
        let figures = blocks.flat_map(|block| match block {
            Block::Figure(figure) => std::slice::from_ref(figure),
            Block::Gallery(figures) => figures,
            _ => &[],
        });
        csv::table(&figures.into_iter().find(|figure| figure.id == id).unwrap().data())
    }

    fn report(tab: &mut Tab) {
        tab.open(&html::page(&sample::report()));
        tab.wait_for("document.querySelector('#figure-first-time .tools')");
    }

    #[test]
    #[ignore = "needs chromium"]
    fn a_page_makes_no_request_and_no_complaint() {
        for document in
            [Document::default(), sample::report(), sample::dense(8000), sample::hostile()]
        {
            let mut tab = Tab::new();
            tab.offline(true);
            let path = tab.open(&html::page(&document));
            tab.eval("scrollTo(0, document.body.scrollHeight)");
            tab.settle();
            tab.eval("scrollTo(0, 0)");
            tab.settle();
            let requests = tab.requests();
            let own = format!("file://{}", path.display());
            assert!(requests.iter().all(|it| *it == own || it == "data:,"), "{requests:?}");
            assert!(tab.complaints().is_empty(), "{:#?}", tab.complaints());
        }
    }

    #[test]
    #[ignore = "needs chromium"]
    fn the_policy_stops_what_is_not_the_pages_own() {
        let mut tab = Tab::new();
        let page = html::page(&sample::report());
        let more = "<script>window.__pwned = 1</script><style>h1 { display: none }</style><img src=\"https://example.invalid/x.png\"></body>";
        tab.open(&page.replacen("</body>", more, 1));
        assert!(tab.eval("window.__pwned === undefined").as_bool().unwrap());
        assert_eq!(tab.text("getComputedStyle(document.querySelector('h1')).display"), "block");
        assert!(tab.complaints().len() >= 3, "{:?}", tab.complaints());
    }

    #[test]
    #[ignore = "needs chromium"]
    fn the_pointer_shows_values_and_the_cursor_is_linked() {
        let mut tab = Tab::new();
        report(&mut tab);
        // 60 points, 5 s apart, on an axis of 300 s: 150 s is the 31st.
        let at = place(&mut tab, "first-time", 0, (150.0 / 300.0, 0.3));
        tab.point_at(at);
        let shown = tab.text("document.querySelector('.tip').innerText");
        let reads = 2e5 * (1.0 + 0.2 * (30.0_f64 * 0.21).sin());
        for words in [Quantity::Seconds.words(150.0), Quantity::Iops.words(reads)] {
            assert!(shown.contains(&words), "{words} in {shown}");
        }
        for name in ["reads", "writes", "p50", "p99.9"] {
            assert!(shown.contains(name), "{name} in {shown}");
        }
        // In the second section, only visible figures over seconds follow the cursor.
        tab.size(1280, 3000);
        let at = place(&mut tab, "time-a", 0, (0.5, 0.3));
        tab.point_at(at);
        let with_cursor =
            |id: &str| format!("document.querySelector('#figure-{id} .cursor') !== null");
        for (id, is_linked) in [
            ("time-a", true),
            ("time-b", true),
            ("first-time", false),
            ("spectrum", false),
            ("hockey", false),
        ] {
            assert_eq!(tab.eval(&with_cursor(id)), is_linked, "{id}");
        }
        assert_eq!(tab.count("document.querySelectorAll('.tip:not(.linked)').length"), 1);
        assert!(tab.number("document.querySelectorAll('.tip.linked').length") >= 1.0);
        tab.point_at((3.0, 3.0));
        assert_eq!(tab.count("document.querySelectorAll('.tip, .cursor').length"), 0);
        // A finger that is lifted leaves the values to be read; a touch elsewhere takes them away.
        let at = place(&mut tab, "hockey", 0, (0.5, 0.5));
        tab.tap(at);
        assert!(tab.text("document.querySelector('.tip').innerText").contains("QD"));
        tab.tap((3.0, 3.0));
        assert_eq!(tab.count("document.querySelectorAll('.tip, .cursor').length"), 0);
        // A heat map has the count of the cell under the pointer, elsewhere that of the fullest of the column.
        let at = place(&mut tab, "heat", 0, (2.5 / 60.0, 0.5));
        tab.point_at(at);
        let shown = tab.text("document.querySelector('.tip').innerText");
        assert!(shown.contains("I/Os") && shown.contains(" to "), "{shown}");
        // A matrix has the values of a column.
        let at = place(&mut tab, "matrix", 0, (1.5 / 7.0, 0.5 / 6.0));
        tab.point_at(at);
        let shown = tab.text("document.querySelector('.tip').innerText");
        assert!(shown.contains("5 %") && shown.contains("200 k"), "{shown}");
    }

    /// All values of a tooltip are those of the interval under the pointer, whatever point is nearest.
    #[test]
    #[ignore = "needs chromium"]
    fn values_are_those_of_the_interval_under_the_pointer() {
        let mut tab = Tab::new();
        let figure = sample::intervals("intervals");
        tab.open(&html::page(&of_figure(figure.clone())));
        tab.wait_for("document.querySelector('#figure-intervals .tools')");
        for (interval, share) in [(0, 0.1), (3, 0.05), (3, 0.5), (3, 0.95), (8, 0.7), (9, 0.9)] {
            for (panel, height) in [(0, 0.1), (0, 0.9), (1, 0.1), (1, 0.9)] {
                let x = (f64::from(interval) + share) / 10.0;
                let at = place(&mut tab, "intervals", panel, (x, height));
                tab.point_at(at);
                let shown = tab.text("document.querySelector('.tip').innerText");
                let [from, to] = [interval, interval + 1]
                    .map(|edge| Quantity::Seconds.words(f64::from(edge) * 0.2));
                let rate = Quantity::Iops.words(1e3 * f64::from(interval + 1));
                let p99 = Quantity::LatencyNs.words(1e6 * f64::from(interval + 1));
                for words in [format!("{from} to {to}"), rate, p99] {
                    assert!(shown.contains(&words), "{words} at {x}, {height} of {panel}: {shown}");
                }
                assert!(interval == 0 || shown.contains("I/Os"), "{shown}");
            }
        }
        let at = place(&mut tab, "intervals", 0, (0.5, 0.1));
        tab.point_at(at);
        tab.eval("document.querySelector('#figure-intervals .frame').focus()");
        tab.key(Key::Named("Home"));
        let spoken = tab.text("document.querySelector('[aria-live]').textContent");
        assert!(spoken.contains("1.00 k at 0 ns to 200 ms; point 1 of 10"), "{spoken}");
        // The counts of the heat map are a file, as the command writes it.
        tab.eval("URL.createObjectURL = (blob) => { window.saved = blob; return 'data:,'; }");
        tab.eval("[...document.querySelectorAll('#figure-intervals .tools button')].find((it) => it.textContent === 'Save counts').click()");
        assert_eq!(tab.text("saved.text()"), csv::table(&figure.counts().unwrap()));
    }

    #[test]
    #[ignore = "needs chromium"]
    fn dragging_zooms_all_linked_figures_and_a_double_click_resets() {
        let mut tab = Tab::new();
        report(&mut tab);
        let before = (ticks(&mut tab, "time-a"), ticks(&mut tab, "time-b"));
        let from = place(&mut tab, "time-a", 0, (0.25, 0.5));
        let to = place(&mut tab, "time-a", 0, (0.5, 0.5));
        tab.drag(from, to);
        let zoomed = ticks(&mut tab, "time-a");
        assert_ne!(zoomed, before.0);
        assert_eq!(ticks(&mut tab, "time-b"), zoomed, "linked");
        assert_eq!(ticks(&mut tab, "first-time"), before.0, "another section");
        // A quarter of 5 min from 1 min 15 s on: ticks are marks in seconds.
        assert!(zoomed.contains("100 s") && zoomed.contains("140 s"), "{zoomed}");
        // The value under the pointer is still the one that is shown.
        let at = place(&mut tab, "time-a", 0, (0.4, 0.5));
        tab.point_at(at);
        let shown = tab.text("document.querySelector('.tip .at').textContent");
        assert_eq!(shown, "105 s");
        // The dots of the cursor lie on the lines as they are drawn.
        let on_line = tab.eval(
            "(() => { const svg = document.querySelector('#figure-time-a svg.chart'), lines = [...svg.querySelectorAll('.zoom .series .l')];\
             return [...svg.querySelectorAll('.cursor circle')].map((dot) => { const at = new DOMPoint(dot.cx.baseVal.value, dot.cy.baseVal.value).matrixTransform(svg.getCTM());\
             return lines.some((line) => (line.style.strokeDasharray = 'none', line).isPointInStroke(at.matrixTransform(line.getCTM().inverse()))); }); })()",
        );
        assert_eq!(on_line, json!([true, true, true, true]));
        let moved = "document.querySelector('#figure-time-a .zoom').hasAttribute('transform')";
        assert_eq!(tab.eval(moved), true);
        tab.click(at, 2);
        assert_eq!(tab.eval(moved), false);
        assert_eq!((ticks(&mut tab, "time-a"), ticks(&mut tab, "time-b")), before);
        // Every kind of axis has ticks when it is zoomed.
        for id in ["hockey", "spectrum", "bars"] {
            let before = ticks(&mut tab, id);
            let (from, to) =
                (place(&mut tab, id, 0, (0.35, 0.5)), place(&mut tab, id, 0, (0.85, 0.5)));
            tab.drag(from, to);
            let zoomed = ticks(&mut tab, id);
            println!("{id}: {before} | {zoomed}");
            assert!(
                zoomed != before && !zoomed.is_empty() && !zoomed.contains("NaN"),
                "{id}: {zoomed}"
            );
        }
        assert!(tab.complaints().is_empty(), "{:#?}", tab.complaints());
    }

    #[test]
    #[ignore = "needs chromium"]
    fn series_are_hidden_in_all_linked_figures() {
        let mut tab = Tab::new();
        report(&mut tab);
        let shown = |tab: &mut Tab, id: &str| {
            tab.count(&format!("[...document.querySelectorAll('#figure-{id} .zoom .series')].filter((it) => getComputedStyle(it).display !== 'none').length"))
        };
        let _ = place(&mut tab, "time-a", 0, (0.5, 0.5));
        tab.wait_for("document.querySelector('#figure-time-b .key')");
        assert_eq!(shown(&mut tab, "time-b"), 4);
        let at = tab.middle("#figure-time-a .key[aria-label='writes']");
        tab.click(at, 1);
        for (id, count) in [("time-a", 3), ("time-b", 3), ("first-time", 4)] {
            assert_eq!(shown(&mut tab, id), count, "{id}");
        }
        let pressed = "document.querySelector('#figure-time-b .key[aria-label=\"writes\"]').getAttribute('aria-pressed')";
        assert_eq!(tab.text(pressed), "false");
        let at = place(&mut tab, "time-a", 0, (0.5, 0.9));
        tab.point_at(at);
        let tip = tab.text("document.querySelector('.tip').innerText");
        assert!(tip.contains("reads") && !tip.contains("writes"), "{tip}");
        let at = tab.middle("#figure-time-a .key[aria-label='writes']");
        tab.click(at, 1);
        assert_eq!(shown(&mut tab, "time-b"), 4);
    }

    #[test]
    #[ignore = "needs chromium"]
    fn the_keyboard_reaches_each_chart_and_reads_its_values() {
        let mut tab = Tab::new();
        report(&mut tab);
        let mut reached = Vec::new();
        for _ in 0..400 {
            tab.key(Key::Named("Tab"));
            let id = tab.text("document.activeElement.matches('.frame') ? document.activeElement.closest('figure').dataset.id : ''");
            if !id.is_empty() {
                reached.push(id);
            }
            if tab.eval("document.activeElement === document.body") == true {
                break;
            }
        }
        for id in [
            "first-time",
            "hockey",
            "spectrum",
            "time-a",
            "time-b",
            "bars",
            "matrix",
            "small-0",
            "small-3",
        ] {
            assert!(reached.iter().any(|it| it == id), "{id} in {reached:?}");
        }
        tab.eval("document.querySelector('#figure-hockey .frame').focus()");
        let mut press = |key| {
            tab.key(key);
            tab.text("document.querySelector('[aria-live]').textContent")
        };
        let depth = |i: i32| 2_f64.powi(i);
        let words = |i: i32, k: f64| {
            let latency = Quantity::LatencyNs.words(k * 8e4 * (1.0 + depth(i) / 40.0));
            let rate = Quantity::Iops.words(4e5 * depth(i) / (depth(i) + 30.0));
            format!("{latency} at {rate}, QD {}", depth(i))
        };
        assert!(press(Key::Named("ArrowRight")).contains(&format!("p50: {}", words(0, 1.0))));
        assert!(press(Key::Named("ArrowRight")).contains(&words(1, 1.0)));
        assert!(press(Key::Named("ArrowDown")).contains(&format!("p99: {}", words(1, 2.5))));
        assert!(press(Key::Named("ArrowUp")).contains(&format!("p50: {}", words(1, 1.0))));
        assert!(press(Key::Named("End")).contains(&words(11, 1.0)));
        assert!(press(Key::Named("ArrowLeft")).contains(&words(10, 1.0)));
        assert!(press(Key::Named("Home")).contains("point 1 of 12"));
        assert!(press(Key::Char('+')).starts_with("From"));
        // A point that the zoom hides is brought in sight.
        assert!(press(Key::Named("End")).contains(&words(11, 1.0)));
        assert_eq!(press(Key::Char('0')), "The whole axis");
        press(Key::Named("Escape"));
        assert_eq!(tab.count("document.querySelectorAll('.tip, .cursor').length"), 0);
    }

    #[test]
    #[ignore = "needs chromium"]
    fn light_and_dark_follow_the_system_and_the_button() {
        let ground = "getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector('.chart .c0')).color";
        let mut tab = Tab::new();
        tab.media("light", "");
        report(&mut tab);
        let light = tab.text(ground);
        tab.media("dark", "");
        let dark = tab.text(ground);
        assert_ne!(light, dark);
        let named = "document.querySelector('.theme').textContent";
        let button = tab.middle(".theme");
        assert_eq!(tab.text(named), "Light", "the button is named after what it changes to");
        tab.click(button, 1);
        assert_eq!(tab.text(ground), light);
        assert_eq!(tab.text(named), "Dark");
        tab.click(button, 1);
        assert_eq!(tab.text(ground), dark);
        // Paper is light, whatever is on screen.
        tab.media("dark", "print");
        assert_eq!(tab.text(ground), light);
    }

    #[test]
    #[ignore = "needs chromium"]
    fn without_scripts_all_is_there_and_nothing_is_dead() {
        let mut tab = Tab::new();
        tab.scripts(false);
        tab.open(&html::page(&sample::report()));
        let text = tab.text("document.body.innerText");
        for words in [
            "412 k IOPS",
            "± 1.2 %",
            "drift by 12 %",
            "Latency against rate",
            "All cells",
            "iodyno run --target",
            "NON-CONFORMANT",
        ] {
            assert!(text.contains(words), "{words}");
        }
        assert_eq!(tab.count("document.querySelectorAll('button, [tabindex]:not(.scroll), input, [role=application]').length"), 0);
        assert!(tab.number("document.querySelectorAll('svg.chart .tick').length") > 50.0);
        // Folded sections open by the browser's own means, also from the list of sections.
        tab.eval("location.hash = 'raw'");
        tab.wait_for("document.querySelector('details.section').open");
    }

    /// The contents of a PDF, with compressed streams inflated.
    fn unpacked(pdf: &[u8]) -> String {
        let mut out = String::from_utf8_lossy(pdf).into_owned();
        let find = |from: usize, what: &[u8]| {
            pdf[from..].windows(what.len()).position(|it| it == what).map(|at| from + at)
        };
        let mut from = 0;
        while let Some(start) = find(from, b"stream") {
            let end = find(start, b"endstream").unwrap_or(pdf.len());
            let body = &pdf[start + 6..end];
            let skip = body.iter().take_while(|&&byte| byte == b'\r' || byte == b'\n').count();
            if let Ok(bytes) = miniz_oxide::inflate::decompress_to_vec_zlib(&body[skip..]) {
                let _ = write!(out, "\n{}", String::from_utf8_lossy(&bytes));
            }
            from = end + 9;
        }
        out
    }

    #[test]
    #[ignore = "needs chromium"]
    fn paper_has_vectors_and_everything_open() {
        let mut tab = Tab::new();
        report(&mut tab);
        let pdf = unpacked(&tab.pdf());
        assert!(pdf.contains("/Type /Page"), "a PDF was made");
        assert!(!pdf.contains("/Subtype /Image"), "charts are vectors");
        // A raster image would have been found.
        let png = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        tab.open(&format!("<img src=\"{png}\" width=90 height=90>"));
        assert!(unpacked(&tab.pdf()).contains("/Subtype /Image"));

        report(&mut tab);
        tab.media("light", "print");
        for hidden in [".tools", ".theme", "nav", ".copy"] {
            let display = format!("getComputedStyle(document.querySelector('{hidden}')).display");
            assert_eq!(tab.text(&display), "none", "{hidden}");
        }
        // Heads of tables stay, though they are buttons on screen.
        tab.media("light", "");
        let _ = tab.middle("#tables th.n");
        tab.media("light", "print");
        assert!(
            tab.number(
                "document.querySelector('#tables th button').getBoundingClientRect().height"
            ) > 5.0
        );
        let is_seen = "document.querySelector('details.section table').checkVisibility()";
        assert_eq!(tab.eval(is_seen), true);
        tab.media("light", "screen");
        assert_eq!(tab.eval(is_seen), false);
    }

    #[test]
    #[ignore = "needs chromium"]
    fn axe_finds_nothing_grave() {
        let axe = include_str!("vendor/axe-core-4.14.1/axe.min.js");
        for scheme in ["light", "dark"] {
            for document in [sample::report(), sample::dense(8000), Document::default()] {
                let mut tab = Tab::new();
                tab.media(scheme, "");
                tab.size(1280, 6000);
                tab.open(&html::page(&document));
                tab.settle();
                tab.settle();
                tab.eval("for (const node of [...document.querySelectorAll('details.section'), ...document.querySelectorAll('.data')].slice(0, 2)) node.open = true");
                tab.settle();
                tab.eval(axe);
                let found = tab.eval("axe.run(document, { resultTypes: ['violations'] }).then((it) => it.violations.map(({ id, impact, nodes }) => ({ id, impact, where: nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary) })))");
                let grave = |it: &&Value| it["impact"] == "serious" || it["impact"] == "critical";
                let grave: Vec<&Value> = found.as_array().unwrap().iter().filter(grave).collect();
                assert!(grave.is_empty(), "{scheme}: {}", json!(grave));
                println!("{scheme}: lesser: {found}");
            }
        }
    }

    #[test]
    #[ignore = "needs chromium"]
    fn hostile_text_runs_nothing_and_breaks_no_layout() {
        let mut tab = Tab::new();
        tab.open(&html::page(&sample::hostile()));
        tab.wait_for("document.querySelector('.tools')");
        for id in ["hostile-figure", "hostile-bars", "hostile-matrix"] {
            let at = place(&mut tab, id, 0, (0.5, 0.5));
            tab.point_at(at);
            assert!(tab.text("document.querySelector('.tip').innerText").len() > 10);
        }
        assert_eq!(tab.eval("window.__pwned === undefined"), true);
        assert_eq!(tab.dialogs(), 0);
        assert!(tab.complaints().is_empty(), "{:#?}", tab.complaints());
        assert_eq!(tab.count("document.querySelectorAll('img, [onerror], [onload]').length"), 0);
        let heading = tab.text("document.querySelector('h1').textContent");
        assert_eq!(heading, sample::HOSTILE);
        for width in [1280, 400] {
            tab.size(width, 900);
            let wide = tab.number("document.documentElement.scrollWidth");
            assert!(wide <= f64::from(width), "{wide} at {width}");
        }
        assert_eq!(
            tab.text("JSON.parse(document.querySelector('script[id][type]').textContent)"),
            sample::HOSTILE
        );
    }

    /// Every label of every figure is complete, inside its figure and covers no other, at the widths of a screen and
    /// of a phone. No page is wider than the window.
    #[test]
    #[ignore = "needs chromium"]
    fn labels_are_whole_and_apart() {
        let of = |block: fn(Vec<Figure>) -> Vec<Block>| {
            let figures = gallery::figures().into_iter().chain([gallery::usual()]).collect();
            let (id, title) = ("gallery".to_owned(), "Gallery".to_owned());
            let section = Section { id, title, blocks: block(figures), folded: false };
            Document { sections: vec![section], ..Document::default() }
        };
        let large = of(|figures| figures.into_iter().map(Block::Figure).collect());
        let small = of(|figures| vec![Block::Gallery(figures)]);
        let documents = [
            ("large", large),
            ("small", small),
            ("report", sample::report()),
            ("typical", sample::typical()),
            ("many", sample::many(4)),
        ];
        let mut tab = Tab::new();
        let mut wrong = Vec::new();
        for (name, document) in documents {
            tab.open(&html::page(&document));
            // A box with wider content shows a shadow.
            let hidden = "[...document.querySelectorAll('.wide, .scroll')].filter((it) => it.scrollWidth > it.clientWidth && getComputedStyle(it).backgroundImage === 'none').length";
            for width in [1280, 420] {
                tab.size(width, 900);
                tab.settle();
                let found = tab.wrong_labels();
                wrong.extend(found.iter().map(|words| format!("{name} at {width}: {words}")));
                let wide = tab.number("document.documentElement.scrollWidth");
                assert!(wide <= f64::from(width), "{name}: {wide} at {width}");
                assert_eq!(tab.count(hidden), 0, "{name} at {width}");
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    #[ignore = "needs chromium"]
    fn data_and_pictures_leave_the_page_as_the_command_writes_them() {
        let document = sample::report();
        let mut tab = Tab::new();
        report(&mut tab);
        tab.eval("URL.createObjectURL = (blob) => { window.saved = blob; return 'data:,'; }");
        for id in ["first-time", "hockey", "spectrum", "bars", "matrix"] {
            let _ = place(&mut tab, id, 0, (0.5, 0.5));
            tab.wait_for(&format!("document.querySelector('#figure-{id} .tools')"));
            tab.eval(&format!(
                "document.querySelector('#figure-{id} .tools button:nth-last-child(3)').click()"
            ));
            assert_eq!(tab.text("saved.text()"), data(&document, id), "{id}");
            tab.eval(&format!(
                "document.querySelector('#figure-{id} .tools button:last-child').click()"
            ));
            let svg = tab.text("saved.text()");
            let tree = roxmltree::Document::parse(&svg).unwrap();
            assert!(tree.root_element().has_tag_name(("http://www.w3.org/2000/svg", "svg")));
            assert!(svg.contains("NON-CONFORMANT") && svg.contains("--c0"), "{svg}");
        }
        // The page's table has a part of a dense figure, the CSV all of it.
        let document = sample::dense(8000);
        tab.open(&html::page(&document));
        tab.wait_for("document.querySelector('.tools')");
        tab.eval("URL.createObjectURL = (blob) => { window.saved = blob; return 'data:,'; }");
        tab.eval("document.querySelector('.tools button:nth-last-child(3)').click()");
        assert_eq!(tab.text("saved.text()"), data(&document, "dense"));
    }

    #[test]
    #[ignore = "needs chromium"]
    fn tables_are_sorted_within_their_groups() {
        let mut tab = Tab::new();
        report(&mut tab);
        let at = tab.middle("#tables th.n");
        tab.click(at, 1);
        let column = "[...document.querySelectorAll('#tables .body > :first-child tbody tr')].map((row) => row.className === 'group' ? null : Number(row.cells[1].dataset.v))";
        let sorted = |values: &Value, falling: bool| {
            let values: Vec<Option<f64>> =
                values.as_array().unwrap().iter().map(Value::as_f64).collect();
            let groups: Vec<&[Option<f64>]> = values.split(Option::is_none).collect();
            assert_eq!(groups.len(), 5, "the groups are where they were");
            groups[1..].iter().all(|group| {
                group.len() == 4 && group.is_sorted_by(|a, b| if falling { a >= b } else { a <= b })
            })
        };
        let values = tab.eval(column);
        assert!(sorted(&values, false), "{values}");
        let at = tab.middle("#tables th.n");
        tab.click(at, 1);
        let values = tab.eval(column);
        assert!(sorted(&values, true), "{values}");
    }

    /// Negative numbers are sorted as numbers, unknown ones come last and are empty in the data. A column without a
    /// head has no button.
    #[test]
    #[ignore = "needs chromium"]
    fn numbers_of_a_table_may_be_negative_or_unknown() {
        let columns = [Column::words("cell"), Column::words(""), Column::numbers("error", "")];
        let mut table = Table::new(columns);
        for (name, share) in [("a", -0.02), ("b", f64::NAN), ("c", -0.1), ("d", 0.3)] {
            let cell = Cell::of(Quantity::Change, share);
            table.push([Cell::words(name), Cell::words("–"), cell]);
        }
        let mut document = of_figure(sample::intervals("intervals"));
        document.sections[0].blocks = vec![Block::Table(table.clone())];
        let mut tab = Tab::new();
        tab.open(&html::page(&document));
        tab.wait_for("document.querySelector('th button')");
        let at = tab.middle("th.n button");
        tab.click(at, 1);
        let order = "[...document.querySelectorAll('tbody tr')].map((row) => row.cells[0].textContent).join('')";
        assert_eq!(tab.text(order), "cadb");
        let nameless = "[...document.querySelectorAll('th button')].filter((it) => !it.textContent.trim()).length";
        assert_eq!(tab.count(nameless), 0);
        tab.eval("navigator.clipboard.writeText = async (text) => { window.copied = text; }");
        tab.eval("document.querySelector('.block .tools button').click()");
        assert_eq!(tab.text("copied"), "cell,,error\nc,–,-0.1\na,–,-0.02\nd,–,0.3\nb,–,\n");
        let of_command = "cell,,error\na,–,-0.02\nb,–,\nc,–,-0.1\nd,–,0.3\n";
        assert_eq!(csv::table(&table), of_command);
    }

    /// On paper a wide table is not cut: its last column lies on the sheet.
    #[test]
    #[ignore = "needs chromium"]
    fn wide_tables_fit_on_paper() {
        let mut tab = Tab::new();
        for columns in [5, 9, 14, 20] {
            let heads = (0..columns).map(|i| match i {
                0 => Column::words("cell"),
                _ => Column::numbers(format!("{i} p99.9 of writes"), "ns"),
            });
            let mut table = Table::new(heads.collect::<Vec<_>>());
            for row in 0..30 {
                let cells = (0..columns).map(|i| match i {
                    0 => Cell::words(format!("random-write-4k T{row}Q32")),
                    _ => Cell::of(Quantity::LatencyNs, 123_456.0 * f64::from(i)),
                });
                table.push(cells.collect::<Vec<_>>());
            }
            let mut document = of_figure(sample::intervals("intervals"));
            document.sections[0].blocks = vec![Block::Table(table)];
            tab.open(&html::page(&document));
            // A sheet of A4 without its margins.
            tab.size(688, 980);
            tab.media("light", "print");
            tab.settle();
            let over = "document.querySelector('table').getBoundingClientRect().right - document.querySelector('.scroll').getBoundingClientRect().right";
            let over = tab.number(over);
            assert!(over <= 1.0, "{columns} columns are {over} px too wide");
            tab.media("light", "screen");
        }
    }

    #[test]
    #[ignore = "needs chromium"]
    fn very_many_points_are_drawn_on_a_canvas_and_printed_as_vectors() {
        let mut tab = Tab::new();
        tab.open(&html::page(&sample::dense(40_000)));
        tab.wait_for("document.querySelector('.plot canvas')");
        tab.settle();
        let painted = "(() => { const it = document.querySelector('.plot canvas'); return it.getContext('2d').getImageData(0, 0, it.width, it.height).data.some((byte) => byte > 0); })()";
        assert_eq!(tab.eval(painted), true);
        // The canvas lies where the panel is.
        let off = tab.eval("(() => { const svg = document.querySelector('svg.chart'), k = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;\
            const { box } = JSON.parse(document.querySelector('.scales').textContent).panels[0], at = document.querySelector('.plot canvas').getBoundingClientRect(), of = svg.getBoundingClientRect();\
            return [at.x - of.x - box.x * k, at.y - of.y - box.y * k, at.width - box.width * k, at.height - box.height * k].map(Math.abs); })()");
        assert!(off.as_array().unwrap().iter().all(|it| it.as_f64().unwrap() < 1.5), "{off}");
        let hidden = "getComputedStyle(document.querySelector('.zoom .series')).visibility";
        assert_eq!(tab.text(hidden), "hidden");
        let at = place(&mut tab, "dense", 0, (0.5, 0.3));
        tab.point_at(at);
        assert!(tab.text("document.querySelector('.tip').innerText").contains("reads"));
        let (from, to) =
            (place(&mut tab, "dense", 0, (0.2, 0.5)), place(&mut tab, "dense", 0, (0.3, 0.5)));
        let before = ticks(&mut tab, "dense");
        tab.drag(from, to);
        assert_ne!(ticks(&mut tab, "dense"), before);
        assert_eq!(tab.eval(painted), true);
        tab.media("light", "print");
        assert_eq!(tab.text(hidden), "visible");
        tab.media("light", "");
        assert!(!unpacked(&tab.pdf()).contains("/Subtype /Image"));
        // The browser complains about the test's own reading of pixels.
        let complaints: Vec<String> =
            tab.complaints().into_iter().filter(|it| !it.contains("getImageData")).collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    /// The script writes numbers as the rest of the document does.
    #[test]
    #[ignore = "needs chromium"]
    fn words_of_the_script_are_those_of_the_document() {
        let script = include_str!("../src/html/scales.js");
        let from = script.find("const SI = ").unwrap();
        let to = script.find("const words = ").unwrap();
        let mut tab = Tab::new();
        let names = [
            ("iops", Quantity::Iops),
            ("throughput", Quantity::Throughput),
            ("latency_ns", Quantity::LatencyNs),
            ("seconds", Quantity::Seconds),
            ("share", Quantity::Share),
            ("change", Quantity::Change),
            ("bytes", Quantity::Bytes),
            ("count", Quantity::Count),
            ("ratio", Quantity::Ratio),
            ("quantile", Quantity::Quantile),
            ("celsius", Quantity::Celsius),
        ];
        // Ten digits, so that no value lies exactly between two that are written.
        let mut values = vec![0.0, 1.0, 4096.0, 0.999, 0.9999, 1e15, 999.96, 0.031_234_567_891];
        values.extend((0..250).map(|i| 1.000_123_456_7 * 1.137_f64.powi(i) * 1e-3));
        let asked = format!(
            "{{ {}; return {}.map(([name, value]) => WORDS[name](value)); }}",
            &script[from..to],
            {
                let all: Vec<Value> = names
                    .iter()
                    .flat_map(|(name, _)| values.iter().map(move |value| json!([name, value])))
                    .collect();
                Value::from(all)
            }
        );
        let said = tab.eval(&format!("(() => {asked})()"));
        for value in [-0.0, -0.031_234_567_891, -1e-9] {
            let said = tab.eval(&format!(
                "(() => {{ {}; return WORDS.change({value:?}); }})()",
                &script[from..to]
            ));
            assert_eq!(said, Quantity::Change.words(value), "a change of {value}");
        }
        let expected = names
            .iter()
            .flat_map(|(_, quantity)| values.iter().map(|&value| quantity.words(value)));
        for (i, expected) in expected.enumerate() {
            let (name, value) = (names[i / values.len()].0, values[i % values.len()]);
            assert_eq!(said[i], expected, "{name} of {value}");
        }
    }

    /// Opens the page whose file `IODYNO_PAGE` names, if it is set.
    #[test]
    #[ignore = "needs chromium"]
    fn many_figures_are_painted_soon() {
        let mut tab = Tab::new();
        let page = std::env::var_os("IODYNO_PAGE").map_or_else(
            || html::page(&sample::many(300)),
            |file| std::fs::read_to_string(file).expect("IODYNO_PAGE names a page"),
        );
        tab.open(&page);
        tab.wait_for("performance.getEntriesByName('first-contentful-paint').length");
        let paint =
            tab.number("performance.getEntriesByName('first-contentful-paint')[0].startTime");
        let loaded = tab.number("performance.getEntriesByType('navigation')[0].loadEventEnd");
        // No figure out of sight was read.
        assert!(tab.number("document.querySelectorAll('.tools').length") < 20.0);
        println!(
            "{} bytes: first contentful paint after {paint:.0} ms, loaded after {loaded:.0} ms",
            page.len()
        );
    }
}
