//! Several machines in one argument: `dgx-h100:nodes=2,slice=0,t3000`.

/// Returns the machines. A part with `=` and without a machine's name before it is one more argument of the machine before.
pub fn split(list: &str) -> Vec<String> {
    let mut machines: Vec<String> = Vec::new();
    let mut depth = 0;
    let parts = list.split(|c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        depth == 0 && c == ','
    });
    for part in parts {
        let is_argument = part.split_once('=').is_some_and(|(key, _)| !key.contains([':', '/', '.']));
        match machines.last_mut() {
            Some(machine) if is_argument => *machine += &format!(",{part}"),
            _ if part.is_empty() => {}
            _ => machines.push(part.to_owned()),
        }
    }
    machines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stay_with_their_machine() {
        assert_eq!(split("dgx-h100"), ["dgx-h100"]);
        assert_eq!(
            split("dgx-h100:nodes=2,slice=0,t3000,tpu-v5e:shape=4x4,./a=b.toml"),
            ["dgx-h100:nodes=2,slice=0", "t3000", "tpu-v5e:shape=4x4", "./a=b.toml"]
        );
        assert_eq!(split("dgx-h100:placement=[0,8,1,9],t3000"), ["dgx-h100:placement=[0,8,1,9]", "t3000"]);
        assert!(split("").is_empty());
    }
}
