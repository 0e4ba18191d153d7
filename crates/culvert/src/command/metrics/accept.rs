//! Which form of an exposition a client wants: the field `Accept` (RFC 9110, §12.5.1).

/// The forms that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Prometheus's text format, which everything understands.
    Prometheus,
    /// OpenMetrics 1.0, which ends with `# EOF`.
    OpenMetrics,
}

impl Form {
    /// The form that is wanted most; Prometheus's where nothing else is said.
    pub fn wanted(accept: &[u8]) -> Form {
        let accept = String::from_utf8_lossy(accept);
        let weight = |kind: &str, versions: &[&str]| {
            accept.split(',').filter_map(|range| weight(range, kind, versions)).fold(0.0, f32::max)
        };
        // A range without a version takes any.
        match weight("application/openmetrics-text", &["1.0.0"]) {
            open if open > 0.0 && open >= weight("text/plain", &["0.0.4"]) => Form::OpenMetrics,
            _ => Form::Prometheus,
        }
    }

    /// Media type of the form.
    pub const fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// How much a range of media types is wanted, from 0 to 1; none if it is of another kind or version.
fn weight(range: &str, kind: &str, versions: &[&str]) -> Option<f32> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(kind) {
        return None;
    }
    let mut weight = 1.0;
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name.trim() {
            "version" if !versions.contains(&value.trim_matches('"')) => return None,
            "q" => weight = value.trim().parse().unwrap_or(0.0),
            _ => {}
        }
    }
    Some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_most_is_given() {
        for (accept, form) in [
            ("", Form::Prometheus),
            ("*/*", Form::Prometheus),
            ("text/plain;version=0.0.4", Form::Prometheus),
            ("application/openmetrics-text", Form::OpenMetrics),
            ("application/openmetrics-text; version=1.0.0; charset=utf-8", Form::OpenMetrics),
            ("application/openmetrics-text; version=0.0.1", Form::Prometheus),
            ("application/openmetrics-text;q=0", Form::Prometheus),
            (
                "text/plain;version=0.0.4;q=1,application/openmetrics-text;version=1.0.0;q=0.5",
                Form::Prometheus,
            ),
            // Prometheus 2 and 3.
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Form::OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;q=0.3,\
                 text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                Form::OpenMetrics,
            ),
        ] {
            assert_eq!(Form::wanted(accept.as_bytes()), form, "{accept}");
        }
    }
}
