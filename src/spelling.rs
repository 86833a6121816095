//! The name that a misspelt one probably stands for.

/// Returns ` (did you mean NAME?)` if one of the names is spelled nearly as `word`, for a sentence that refuses it; else nothing.
pub fn hint<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, names).map_or_else(String::new, |name| format!(" (did you mean {name}?)"))
}

/// Returns the name that is nearest to `word`, if no more than a third of its letters have to change. Capitals do not count.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = word.to_lowercase();
    let most = (plain.chars().count() / 3).clamp(1, 3);
    let with_distance = names.into_iter().map(|name| (distance(&plain, &name.to_lowercase()), name));
    with_distance
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns how many letters have to be changed, added, left out or swapped with their neighbours.
pub fn distance(a: &str, b: &str) -> usize {
    strsim::damerau_levenshtein(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_answered_and_another_word_is_not() {
        let names = ["ring", "ring_pair", "tree", "two_shot"];
        assert_eq!(hint("rign", names), " (did you mean ring?)");
        assert_eq!(nearest("RING-PAIR", names), Some("ring_pair"));
        assert_eq!(nearest("twoshot", names), Some("two_shot"));
        assert_eq!(nearest("tee", names), Some("tree"));
        for foreign in ["", "xy", "butterfly"] {
            assert_eq!(hint(foreign, names), "", "{foreign}");
        }
    }
}
