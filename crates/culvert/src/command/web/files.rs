//! The page itself: plain files of `crates/culvert/web`, as they are.

/// A file of the page, with its media type.
pub struct File {
    path: &'static str,
    pub content_type: &'static str,
    pub text: &'static str,
}

/// The file of a path.
pub fn find(path: &str) -> Option<&'static File> {
    let path = if path == "/" { "/index.html" } else { path };
    FILES.iter().find(|file| file.path == path)
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! file {
    ($name:literal, $content_type:expr) => {
        File {
            path: concat!("/", $name),
            content_type: $content_type,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/web/", $name)),
        }
    };
}

const FILES: [File; 10] = [
    file!("index.html", HTML),
    file!("style.css", CSS),
    file!("icon.svg", SVG),
    file!("page.js", SCRIPT),
    file!("ask.js", SCRIPT),
    file!("rates.js", SCRIPT),
    file!("paths.js", SCRIPT),
    file!("tables.js", SCRIPT),
    file!("drawing.js", SCRIPT),
    file!("forms.js", SCRIPT),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_what_the_page_names() {
        let page = find("/").expect("is there").text;
        for name in ["/style.css", "/page.js", "/icon.svg"] {
            assert!(page.contains(name) && find(name).is_some(), "{name}");
        }
        assert!(find("/other").is_none() && find("").is_none() && find("/../Cargo.toml").is_none());
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere_or_runs_in_line() {
        for file in &FILES {
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !text.contains("http:") && !text.contains("https:") && !text.contains("//cdn"),
                "{}",
                file.path
            );
            assert!(!text.contains("innerHTML") && !text.contains("eval("), "{}", file.path);
        }
        let page = find("/").expect("is there").text;
        for inline in ["style=", "<style", " onclick", " onsubmit", " oninput", "javascript:"] {
            assert!(!page.contains(inline), "{inline}");
        }
        assert_eq!(page.matches("<script").count(), 1);
    }
}
