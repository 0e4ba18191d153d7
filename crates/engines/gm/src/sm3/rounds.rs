//! The order of a block's 64 rounds, for any vectors.

/// Runs all of them by `$round`, from these eight words and sixteen of the message; the words after them.
///
/// The words stay where they are: each round is given them in other places, and four rounds later they stand as before.
macro_rules! rounds {
    ($round:ident, $state:expr, $w:expr) => {{
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = $state;
        macro_rules! four {
            ($late:literal, $expand:literal, $j:expr) => {
                $round::<$late, $expand>(
                    $w,
                    $j,
                    [a, e],
                    [&mut b, &mut f],
                    [c, g],
                    [&mut d, &mut h],
                );
                $round::<$late, $expand>(
                    $w,
                    $j + 1,
                    [d, h],
                    [&mut a, &mut e],
                    [b, f],
                    [&mut c, &mut g],
                );
                $round::<$late, $expand>(
                    $w,
                    $j + 2,
                    [c, g],
                    [&mut d, &mut h],
                    [a, e],
                    [&mut b, &mut f],
                );
                $round::<$late, $expand>(
                    $w,
                    $j + 3,
                    [b, f],
                    [&mut c, &mut g],
                    [d, h],
                    [&mut a, &mut e],
                );
            };
        }
        for j in (0..12).step_by(4) {
            four!(false, false, j);
        }
        four!(false, true, 12);
        for j in (16..64).step_by(4) {
            four!(true, true, j);
        }
        [a, b, c, d, e, f, g, h]
    }};
}

pub(super) use rounds;
