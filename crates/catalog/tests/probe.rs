use serde::Deserialize;
use serde_spanned::Spanned;
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Top { schema: u32, threads: Option<Spanned<u32>>, block: Option<Spanned<Size>>, mix: Option<Spanned<Mix>>, name: Option<Name>, list: Option<Vec<Mix>>, one: Option<OneOrMany> }
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Mix { read: Spanned<f64>, write: Option<Spanned<f64>> }
#[derive(Deserialize, Debug)]
#[serde(rename_all="kebab-case")]
enum Name { RandomRead, SeqRead }
#[derive(Debug)]
#[allow(dead_code)]
struct Size(u64);
impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V; impl serde::de::Visitor<'_> for V { type Value = Size;
         fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result { f.write_str("a size such as `4KiB`") }
         fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Size, E> { u64::try_from(v).map(Size).map_err(|_| E::custom("negative size")) }
         fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Size, E> { v.parse().map(Size).map_err(|_| E::custom(format!("`{v}` is not a size: write it"))) }
        }
        d.deserialize_any(V)
    }
}
#[derive(Debug)]
#[allow(dead_code)]
struct OneOrMany(Vec<Mix>);
impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V; impl<'de> serde::de::Visitor<'de> for V { type Value = OneOrMany;
         fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result { f.write_str("a table or list") }
         fn visit_map<A: serde::de::MapAccess<'de>>(self, m: A) -> Result<OneOrMany, A::Error> { Ok(OneOrMany(vec![Mix::deserialize(serde::de::value::MapAccessDeserializer::new(m))?])) }
         fn visit_seq<A: serde::de::SeqAccess<'de>>(self, m: A) -> Result<OneOrMany, A::Error> { Ok(OneOrMany(Vec::deserialize(serde::de::value::SeqAccessDeserializer::new(m))?)) }
        }
        d.deserialize_any(V)
    }
}
#[test]
fn probe() {
    for t in ["schema = 1\nthreds = 2\n", "schema = 1\nthreads = -2\n", "schema = 1\nthreads = \"x\"\n", "threads = 2\n\n", "schema = 1\nblock = \"4x\"", "schema=1\nblock=-4", "schema=1\nblock={ a = 1}", "schema=1\nblock=4.5", "schema=1\n[mix]\nwrite=1\n", "schema=1\n[mix]\nread=1\nx=1\n", "schema=1\nname=\"seqread\"", "schema=1\nname = 1", "schema=1\nmix=1","schema=1\nlist=[{read=1},{red=1}]", "schema=1\none=[{read=1},{red=1}]", "schema=1\none={read=\"x\"}", "schema=1\none={read=1, write = 2}", "schema=1\none=true", "schema=1\n[mix\n", "schema=1\nschema=2\n", "schema=1\nx", "schema = 99999999999999999999", "schema=1\nblock=\"4KiB", "schema=1\nthreads=9999999999"] {
        let f = iodyno_catalog::File { origin: "my.toml".into(), name: "my".into(), text: t.into() };
        match iodyno_catalog::parse::<Top>(&f) { Ok(v) => println!("OK {v:?}"), Err(e) => println!("{e}\n     [{:?}]", toml::from_str::<Top>(t).unwrap_err().message()) }
    }
}
