#[path = "../tests/browser/sample.rs"]
mod sample;
fn main() {
    print!("{}", iodyno_page::html::page(&sample::report()));
}
