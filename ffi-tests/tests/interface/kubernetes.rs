//! The pods of docs/hosts.md, which are two network namespaces here: the manifest's own command and variables. Needs root and `ip`.

use penny_ffi_tests::{compiler, root};
use std::process::{Command, Stdio};

/// What the manifest says: the shell's command line, and the variables with values of their own.
fn manifest() -> (String, Vec<(String, String)>) {
    let page = std::fs::read_to_string(root().join("docs/hosts.md")).unwrap();
    let yaml = page.split("```yaml").nth(1).unwrap().split("```").next().unwrap();
    let line = yaml.lines().find(|line| line.trim().starts_with("command: [sh, -c, '")).expect("a command");
    let command = line.split('\'').nth(1).unwrap().to_owned();
    let variables = yaml.lines().filter_map(|line| {
        let (name, value) =
            line.trim().strip_prefix("- {name: ")?.strip_suffix('}')?.split_once(", value: ")?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    });
    (command, variables.collect())
}

/// Two namespaces with a cable between, whose hosts files name the pods as the headless service does.
struct Pods {
    names: [String; 2],
}

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).output().is_ok_and(|output| output.status.success())
}

fn hosts_file(name: &str) -> std::path::PathBuf {
    std::path::Path::new("/etc/netns").join(name).join("hosts")
}

impl Pods {
    /// `None`: this machine lets nobody make them.
    fn new() -> Option<Pods> {
        let pods = Pods { names: [0, 1].map(|pod| format!("ppod{}-{pod}", std::process::id() % 10_000)) };
        let [a, b] = &pods.names;
        let cable = format!("link add net0 netns {a} type veth peer name net0 netns {b}");
        let mut made = ip(&format!("netns add {a}")) && ip(&format!("netns add {b}")) && ip(&cable);
        for (number, name) in pods.names.iter().enumerate() {
            made &= ip(&format!("-n {name} addr add 10.214.0.{}/24 dev net0", number + 1))
                && ip(&format!("-n {name} link set net0 up"))
                && ip(&format!("-n {name} link set lo up"));
            let file = hosts_file(name);
            let names = "127.0.0.1 localhost\n10.214.0.1 rank-0.penny\n10.214.0.2 rank-1.penny\n";
            made &= std::fs::create_dir_all(file.parent().unwrap()).is_ok()
                && std::fs::write(&file, names).is_ok();
        }
        made.then_some(pods)
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
            let file = hosts_file(name);
            let _ = std::fs::remove_file(&file).and_then(|()| std::fs::remove_dir(file.parent().unwrap()));
        }
        let _ = std::fs::remove_dir("/etc/netns");
    }
}

#[test]
fn the_pods_of_the_manifest_meet() {
    let Some(pods) = Pods::new() else { return println!("SKIPPED: only root makes network namespaces") };
    let (command, variables) = manifest();
    assert!(command.ends_with("exec ./train") && variables.len() == 5, "{command} {variables:?}");
    let dir = tempfile::tempdir().unwrap();
    compiler::program(&root().join("c-examples/02_all_reduce/main.c"), &dir.path().join("train"));
    let start = |number: usize| {
        Command::new("ip")
            .args(["netns", "exec", &pods.names[number], "sh", "-c", &command])
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .env("HOSTNAME", format!("rank-{number}"))
            .env("PENNY_SECRET", "0123456789abcdef0123456789abcdef")
            .env("PENNY_TIMEOUT", "60")
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    for pod in [start(1), start(0)].map(|pod| pod.wait_with_output().unwrap()) {
        assert!(pod.status.success(), "{}", String::from_utf8_lossy(&pod.stderr));
    }
}
