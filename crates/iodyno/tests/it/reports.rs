//! Reports from the command line: the page of a run, of a comparison, of a study; their other formats;
//! and reading a run back from a page. `in_a_browser` tests real pages in a browser.

use crate::place::{Place, SHORT};
use serde_json::Value;
use std::path::Path;

const DEVICE: &str = "model:exflash-400g";

/// Runs a command that writes a page, and returns the page.
fn page(place: &Place, words: &str, file: &str) -> String {
    let output = place.iodyno(words);
    output.succeeds();
    assert!(output.stderr.contains(file), "{}", output.stderr);
    std::fs::read_to_string(place.path(file)).unwrap()
}

/// The document of a run, without the name of its host, which pages don't have.
fn shown(place: &Place, notebook: &Path, id: &str) -> Value {
    let words = format!("show {id} --json --series --notebook {}", notebook.display());
    let mut document = place.iodyno(&words).succeeds().json();
    if let Some(machine) = document["run"]["machine"].as_object_mut() {
        machine.remove("host_name");
    }
    document
}

#[test]
fn a_run_goes_through_a_page_into_another_notebook() {
    let place = Place::new();
    let run =
        place.document(&format!("run four-corners --on {DEVICE} {SHORT} --report=first.html"));
    let id = run["run"]["id"].as_str().unwrap();
    let text = std::fs::read_to_string(place.path("first.html")).unwrap();
    assert!(text.contains("random-write") && text.contains(id), "the page is of this run");
    let named = place.iodyno(&format!("run random-read --on null: {SHORT} -q --report"));
    assert!(named.succeeds().stderr.contains("iodyno-"), "{}", named.stderr);
    // A later page is the same, and bears the run's id where no name is given.
    let again = page(&place, &format!("report {id}"), &format!("iodyno-{id}.html"));
    assert_eq!(text, again);

    let other = place.path("other.sqlite");
    let import = format!("import first.html --notebook {}", other.display());
    let output = place.iodyno(&import);
    assert!(output.succeeds().stdout.contains("read in"), "{}", output.stdout);
    assert_eq!(shown(&place, &other, id), shown(&place, &place.notebook(), id));
    assert!(place.iodyno(&import).succeeds().stdout.contains("exists already"));

    // Without the run there is nothing to read.
    let small = page(&place, &format!("report {id} --without-data -o small.html"), "small.html");
    assert!(small.len() < text.len());
    let output = place.iodyno("import small.html");
    assert!(output.exits(2).stderr.contains("contains no run"), "{}", output.stderr);
    assert!(place.iodyno("import nowhere.html").exits(2).stderr.contains("nowhere.html"));
}

#[test]
fn the_same_content_goes_elsewhere() {
    let place = Place::new();
    place.document(&format!("run random-read --on {DEVICE} --vary depth=1,4,16 {SHORT}"));
    let text = page(&place, "report last -o page.html", "page.html");
    let marked = place.iodyno("report last --markdown").succeeds().stdout.clone();
    for heading in ["Result", "Full disclosure", "Reproduce", "A · Identity", "H · Results"] {
        assert!(marked.contains(heading) && text.contains(heading), "{heading}");
    }
    assert!(marked.contains("Latency and throughput under load"), "{marked}");
    place.write("file", "text");
    place.iodyno("report last --svg file").fails(2, &["could not make this folder"]);
    let output = place.iodyno("report last --svg figures");
    assert!(output.succeeds().stderr.contains("figures in figures"), "{}", output.stderr);
    let names = crate::place::names(&place.path("figures"));
    for name in &names {
        assert!(marked.contains(&format!("figures/{name}")), "{name} is in the text");
        let svg = std::fs::read_to_string(place.path("figures").join(name)).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("exflash-400g"), "{name} stands alone");
    }
    assert!(names.len() >= 3, "{names:?}");
    let csv = place.iodyno("report last --csv").succeeds().stdout.clone();
    assert!(csv.lines().count() > 20 && csv.contains("sweep"), "{csv}");
    let json = place.iodyno("report last --json").succeeds().json();
    assert_eq!(json, place.iodyno("show last --json --series").succeeds().json());
    // A document requested on standard output is printed.
    assert_eq!(place.iodyno("report last -o -").succeeds().stdout, text);
    assert!(
        place.iodyno("report last --csv --markdown").exits(2).stderr.contains("cannot be used")
    );
}

#[test]
fn runs_are_compared_with_the_first() {
    let place = Place::new();
    for seed in 0..4 {
        let name = ["before", "after"][seed % 2];
        let words = format!(
            "run random-read --on {DEVICE} {SHORT} -q --seed {seed} --repeat 4 --name {name}"
        );
        place.iodyno(&words).succeeds();
    }
    let output = place.iodyno("report before");
    assert!(output.exits(2).stderr.contains("names 2 runs"), "{}", output.stderr);
    let text = page(&place, "report before after -o both.html", "both.html");
    assert!(text.contains("<title>after against before</title>"));
    let unnamed = page(&place, "report last~1 last -o unnamed.html", "unnamed.html");
    assert!(unnamed.contains("<title>after (last) against before (last~1)</title>"));
    assert!(text.contains("Shift from A to B") && text.contains("Variation between runs"));
    // Both sides list everything, and all four commands are there.
    assert_eq!(text.matches("I · Comparison").count(), 2);
    assert_eq!(text.matches("iodyno run random-read").count(), 4);
    let same = place.iodyno("report before after --json").succeeds().json();
    assert_eq!(same, place.iodyno("compare before after --json").exits(8).json());
    let other = place.path("other.sqlite");
    let output = place.iodyno(&format!("import both.html --notebook {}", other.display()));
    assert_eq!(output.succeeds().stdout.lines().count(), 4, "{}", output.stdout);
    // Three sides: each compared with the first.
    let output = place.iodyno("report last~3 last~2 last~1 -o three.html");
    output
        .succeeds()
        .says(&["note: each of last~2, last~1 is compared with last~3 alone, not with the others"]);
    let three = std::fs::read_to_string(place.path("three.html")).unwrap();
    let said = "each compared with before (last~3) alone, not with the others";
    assert!(three.contains(said) && !text.contains("alone, not with the others"));
    assert_eq!(three.matches("id=\"figure-shifts-").count(), 2);
    // A triangle that points downwards marks a slower figure, and no sign of an invalid one.
    for (device, name) in [(DEVICE, "fast"), ("model:ssd-sata3-mlc-200g", "slow")] {
        let words = format!("run random-read --on {device} {SHORT} -q --repeat 8 --name {name}");
        place.iodyno(&words).succeeds();
    }
    let text = page(&place, "report fast slow -o slower.html", "slower.html");
    assert!(text.contains("class=\"sign worse\"") && text.contains(">worse</text>"));
    assert!(!text.contains("of no worth") && !text.contains("not usable"));
}

#[test]
fn deviations_from_a_standard_are_on_every_figure() {
    let place = Place::new();
    let words = format!("run pts-wsat --on {DEVICE} --scale 0.01 -q --report=wsat.html");
    place.iodyno(&words).succeeds();
    let text = std::fs::read_to_string(place.path("wsat.html")).unwrap();
    let figures = text.matches("<figure").count();
    assert!(figures >= 2);
    assert!(text.matches("NON-CONFORMANT").count() > figures, "head and every figure");
    assert!(text.contains("all durations of the method are multiplied by 0.01"));
}

/// Notebooks of every version that was ever released, and their crashed runs too.
#[test]
fn old_runs_are_drawn() {
    let place = Place::new();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../notebook/tests/data");
    let mut drawn = 0;
    for name in crate::place::names(&old) {
        let notebook = place.path(&name);
        std::fs::copy(old.join(&name), &notebook).unwrap();
        let flag = format!("--notebook {}", notebook.display());
        let list = place.iodyno(&format!("ls --json {flag}")).succeeds().json();
        for run in list["runs"].as_array().unwrap() {
            let id = run["id"].as_str().unwrap();
            let file = format!("{id}.html");
            let text = page(&place, &format!("report {id} -o {file} {flag}"), &file);
            assert!(text.contains("oltp1") && text.contains("Full disclosure"));
            drawn += 1;
        }
    }
    assert!(drawn >= 2, "the fixtures were not found");
}

#[test]
fn a_study_is_drawn_with_a_measured_run_over_it() {
    let place = Place::new();
    place.write("my.toml", crate::study::STUDY);
    place.write("figures.csv", crate::study::FIGURES);
    // One device, one thread: the study's own coordinates.
    place.document(&format!("run random-read --on ram:64MiB --vary depth=1,2 {SHORT} --name mine"));
    let text = page(&place, "study my.toml --quick -q --report=my.html --with mine", "my.html");
    assert!(text.contains("Table 1: rates") && text.contains("200 k"));
    assert!(text.contains("also show these runs") && text.contains(": mine on ram:64MiB"));
    // Printed values differ from ours in shape.
    assert!(text.contains("class=\"inside\""), "rings of printed values");
    let output = place.iodyno("study my.toml --quick --report=x.html --with nobody");
    assert!(output.exits(2).stderr.contains("nobody"), "{}", output.stderr);
    assert!(place.iodyno("study my.toml --with mine").exits(2).stderr.contains("--report"));
}

/// Names of targets are untrusted text.
#[test]
fn names_are_shown_and_not_run() {
    let place = Place::new();
    let name = "<script>window.__pwned=1<-script>\u{202e}gnp.exe";
    place.write(name, vec![1_u8; 1 << 20]);
    let mut command =
        place.command("run random-read -q --report=page.html --time 60ms --ramp 10ms");
    command.arg("--on").arg(format!("./{name}")).arg("--name").arg("<img src=x onerror=alert(1)>");
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(!text.contains("<script>window") && !text.contains("<img"));
    assert!(text.contains("&#60;img src=x") || text.contains("&lt;img src=x"));
}

mod in_a_browser {
    use super::*;
    use crate::browser::Tab;

    /// Real reports, unmodified.
    fn made(place: &Place) -> Vec<(&'static str, String)> {
        let run = |words: &str, file: &'static str| {
            place.iodyno(&format!("run {words} -q --report={file}")).succeeds();
            (file, std::fs::read_to_string(place.path(file)).unwrap())
        };
        let depths = "random-read --on model:exflash-400g --vary depth=1,4,16,64 --ceiling p99=1ms";
        let pair =
            "qos --each --on model:ssd-sata3-mlc-200g --on model:ssd-sas12-mlc-800g --scale 0.02";
        let mut all = vec![
            run(&format!("four-corners --on ram:64MiB {SHORT} --repeat 3"), "corners.html"),
            run(&format!("{depths} {SHORT} --name depths"), "depths.html"),
            run(&format!("pts-iops --on {DEVICE} --scale 0.01"), "iops.html"),
            run(&format!("pts-wsat --on {DEVICE} --scale 0.02"), "wsat.html"),
            run(pair, "levels.html"),
        ];
        all.push((
            "study.html",
            page(place, "study lenovo-exflash --quick -q --report=study.html", "study.html"),
        ));
        run(&format!("{depths} {SHORT} --name again --seed 2"), "again.html");
        all.push(("both.html", page(place, "report depths again -o both.html", "both.html")));
        all
    }

    #[test]
    #[ignore = "needs chromium"]
    fn real_reports_are_whole_and_reachable_by_all() {
        let place = Place::new();
        let axe = include_str!("../../../page/tests/vendor/axe-core-4.14.1/axe.min.js");
        for (name, text) in made(&place) {
            let mut tab = Tab::new();
            tab.offline(true);
            let path = tab.open(&text);
            // A figure is rendered when it comes near the window; the position of the first one depends
            // on the number of notes. All folded parts are opened, and everything is visible.
            tab.eval("document.querySelectorAll('details').forEach((it) => { it.open = true; })");
            let drawn = "[...document.querySelectorAll('figure:has(svg.chart)')]";
            for nth in 0..tab.count(&format!("{drawn}.length")) {
                tab.eval(&format!("{drawn}[{nth}].scrollIntoView()"));
                tab.wait_for(&format!("{drawn}[{nth}].querySelector('.tools')"));
            }
            println!(
                "{name}: the first figure is at {} px",
                tab.number(&format!("{drawn}[0].getBoundingClientRect().top + scrollY"))
            );
            let own = format!("file://{}", path.display());
            let requests = tab.requests();
            assert!(requests.iter().all(|it| *it == own || it == "data:,"), "{name}: {requests:?}");
            assert!(tab.complaints().is_empty(), "{name}: {:#?}", tab.complaints());
            let doubled = tab.number(
                "(() => { const ids = [...document.querySelectorAll('[id]')].map((it) => it.id); return ids.length - new Set(ids).size; })()",
            );
            assert!(doubled.abs() < 0.5, "{name}: {doubled} ids are there twice");
            for width in [420, 1280] {
                tab.size(width, 900);
                tab.settle();
                let wide = tab.number("document.documentElement.scrollWidth - innerWidth");
                assert!(wide <= 0.0, "{name} is {wide} px too wide at {width}");
            }
            let wrong = tab.wrong_labels();
            assert!(wrong.is_empty(), "{name}: {wrong:#?}");
            let charts = tab.number("document.querySelectorAll('svg.chart').length");
            let reached = tab.number(
                "[...document.querySelectorAll('svg.chart')].filter((it) => it.closest('[tabindex=\"0\"]')).length",
            );
            assert!(
                charts >= 2.0 && (charts - reached).abs() < 0.5,
                "{name}: {reached} of {charts}"
            );
            for (width, height) in [(420, 800), (1280, 800)] {
                tab.size(width, height);
                let cut = "[...document.querySelectorAll('nav a')].filter((it) => { const box = it.getBoundingClientRect(); return box.left < 0 || box.right > innerWidth; }).length";
                assert_eq!(tab.count(cut), 0, "{name}: navigation that is cut at {width} px");
            }
            tab.eval(axe);
            let found = tab.eval(
                "axe.run(document, { resultTypes: ['violations'] }).then((it) => it.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => v.id + ': ' + v.nodes.slice(0, 2).map((n) => n.html.slice(0, 200)).join(' ; ')))",
            );
            assert_eq!(found.as_array().map(Vec::len), Some(0), "{name}: {found:#}");
            println!("{name}: {} KB, {charts} charts", text.len() / 1000);
        }
    }
}

/// The pictures in the documentation have the captions that figures have now: `docs/pictures/make svg` renews them.
#[test]
fn pictures_of_the_documentation_are_current() {
    let place = Place::new();
    place.iodyno(&format!("run oltp1 --on {DEVICE} --time 500ms -q")).succeeds();
    place.iodyno("report last --svg one").succeeds();
    for device in ["exflash-400g", "nvme-tlc-3840g"] {
        let words = format!("run random-read --on model:{device} --vary depth=1,2 --time 100ms -q");
        place.iodyno(&words).succeeds();
    }
    place.iodyno("report last~1 last --svg two").succeeds();
    // Sentences, without their numbers.
    let sentences = |svg: &str| -> Vec<String> {
        let texts = svg.split("</text>").filter_map(|part| part.rsplit('>').next());
        let words = texts
            .filter(|text| !text.starts_with("run "))
            .map(|text| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>());
        words.filter(|text| text.split(' ').count() > 3).collect()
    };
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    for (made, shown) in [("one/time-1-oltp1.svg", "time.svg"), ("two/loads.svg", "load.svg")] {
        let [made, shown] = [place.path(made), pictures.join(shown)]
            .map(|path| sentences(&std::fs::read_to_string(path).unwrap()));
        assert!(!made.is_empty());
        assert_eq!(made, shown);
    }
}
