//! What a machine says beside its ports and ways: faults, loads, placement; and the hash over all of it.

use super::*;

#[test]
fn a_load_takes_its_share_of_a_port() {
    let load = |bw: &str| {
        wired(&format!("[switch]\nplaces = 2\nport = \"wire\"\n[[load]]\nlink = \"g1.tx\"\nbw = \"{bw}\"\n"))
    };
    let n = read(&(load("300MB/s") + "[[load]]\nlink = \"*.tx\"\nbw = \"200MB/s\"\n"));
    let rates: Vec<u64> = (0..4).map(|port| n.class(port).rate / 1_000_000).collect();
    assert_eq!(rates, [800, 1000, 500, 1000]);
    assert_eq!(n.class(2).name, "wire, load 1, load 2");
    let why = wrong(&load("1GB/s"));
    assert_eq!(why, "m.toml:10: bw: this leaves nothing of the link's 1GB/s; write less");
}

#[test]
fn ranks_stand_where_the_placement_says() {
    let n = network("dgx-h100:nodes=2,placement=[0, 8,1,9]:places=8");
    assert_eq!((n.shape, n.places(4)), (Shape([8, 2, 1]), Ok(vec![0, 8, 1, 9])));
    assert_eq!(n.places(3), Ok(vec![0, 8, 1]));
    let many = n.places(5).expect_err("four places");
    assert!(
        many.message.ends_with("has 4 places for 5 ranks; list more places, or take fewer ranks"),
        "{many}"
    );
    let packed = network("dgx-h100:placement=packed");
    assert_eq!((packed.places(8), packed.placement.len()), (Ok((0..8).collect()), 0));
    assert!(packed.places(9).is_err_and(|why| why.message.contains("give it more nodes")));
    let file =
        |text: &str| format!("placement = {text}\n{}", wired("[switch]\nplaces = 4\nport = \"wire\"\n"));
    assert_eq!(read(&file("[3,\n 1, 2]")).placement, [3, 1, 2]);
    assert_eq!(read(&file("\"packed\"")).placement, []);
    let cases = [
        ("[0, 4]", "m.toml:1: placement: there is no place 4; write places of 0..4"),
        ("[0, 1, 0]", "m.toml:1: placement: place 0 is there twice; write each place once"),
        ("[0, -1]", "m.toml:1: placement: `[0, -1]` is no placement; write packed, or places like"),
        ("[]", "m.toml:1: placement: `[]` is no placement"),
        ("\"spread\"", "m.toml:1: placement: `spread` is no placement; write packed, or"),
        ("3", "m.toml:1: placement: `3` is no placement"),
    ];
    for (text, said) in cases {
        let why = wrong(&file(text));
        assert!(why.starts_with(said), "{why}");
    }
    let why = open("n300:placement=[0,0]").err().expect("twice").message.clone();
    assert_eq!(why, "n300: the argument placement: place 0 is there twice; write each place once");
}

#[test]
fn a_hash_stands_for_all_that_matters_and_nothing_else() {
    let plain = "[ring]\nshape = \"4\"\nlink = \"wire\"\n";
    let hash = |rest: &str| read(&wired(rest)).hash();
    let other_name = wired(plain).replace("name = \"m\"", "name = \"other\"").replace("wire", "fibre");
    assert_eq!(hash(plain), read(&other_name).hash());
    let fault = "[[fault]]\nlink = \"g0.x+\"\nkind = \"crc\"\nrate = 0.5\nretries = 1\nseed = 1\n";
    let differ = [
        plain.to_owned(),
        plain.replace("ring", "line"),
        plain.replace('4', "5"),
        format!("{plain}direct = \"powers_of_two\""),
        format!("{plain}[[override]]\nlink = \"g0.x+\"\nlat = \"2us\""),
        format!("{plain}[[override]]\nlink = \"g0.x-\"\nlat = \"2us\""),
        format!("{plain}{fault}"),
        format!("{plain}{}", fault.replace("seed = 1", "seed = 2")),
        format!("{plain}{}", fault.replace("0.5", "0.25")),
    ];
    let mut hashes: Vec<u64> = differ.iter().map(|rest| hash(rest)).collect();
    hashes.push(read(&format!("arb = \"fair\"\n{}", wired(plain))).hash());
    hashes.push(read(&format!("slice = 0\n{}", wired(plain))).hash());
    hashes.push(read(&format!("slice = \"4KiB\"\n{}", wired(plain))).hash());
    hashes.push(read(&format!("placement = [1]\n{}", wired(plain))).hash());
    // These differ by their library alone.
    let (oracle, nvidia) = (network("oci-a100"), network("dgx-a100"));
    assert_eq!(oracle.hash(), nvidia.hash());
    assert_ne!(network("oci-a100:as=nccl").hash(), network("dgx-a100:as=nccl").hash());
    let presets = presets().iter().filter(|(name, _)| *name != "oci-a100");
    hashes.extend(presets.map(|(name, _)| network(name).hash()));
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
    // It is the same on every host, as long as the preset is.
    assert_eq!(network("n300").hash(), 1_990_340_495_820_419_767);
}

#[test]
fn faults_are_of_the_ports_that_they_name() {
    let n = read(&wired(
        "[switch]\nplaces = 2\nport = \"wire\"\n\
         [[fault]]\nlink = \"g1.*\"\nkind = \"down\"\nat = \"1ms\"\nfor = \"2ms\"\nretrain = \"3us\"\n\
         [[fault]]\nlink = \"g1.tx\"\nkind = \"slow\"\nat = \"0s\"\nfor = \"1ms\"\nfactor = \"0.25x\"\n\
         [[fault]]\nlink = \"*\"\nkind = \"crc\"\nrate = 1e-3\nretries = 7\nseed = 5\n",
    ));
    let of = |port| n.faults.iter().filter(move |f| f.port == port).map(|f| (f.from_ps, f.until_ps));
    let (down, always) = ((1_000_000_000, 3_003_000_000), (0, u64::MAX));
    assert_eq!(of(0).collect::<Vec<_>>(), [always]);
    assert_eq!(of(2).collect::<Vec<_>>(), [down, (0, 1_000_000_000), always]);
    assert_eq!(of(3).collect::<Vec<_>>(), [down, always]);
}

#[test]
fn what_is_wrong_in_a_fault_is_said_with_its_line_and_the_remedy() {
    let down =
        "[[fault]]\nlink = \"g1.tx\"\nkind = \"down\"\nat = \"1ms\"\nfor = \"2ms\"\nretrain = \"3us\"\n";
    let crc = "[[fault]]\nlink = \"g1.tx\"\nkind = \"crc\"\nrate = 0.5\nretries = 7\nseed = 5\n";
    let slow =
        "[[fault]]\nlink = \"*.tx\"\nkind = \"slow\"\nat = \"2ms\"\nfor = \"1ms\"\nfactor = \"0.5x\"\n";
    let lanes = slow.replace("slow", "drop_lane").replace("factor = \"0.5x\"", "lanes = \"3/2\"");
    let cases = [
        (
            down.replace("down", "broken"),
            "m.toml:10: kind: `broken` is not known here; write down or slow or",
        ),
        (down.replace("g1", "g7"), "m.toml:9: link: no port is called `g7.tx`; names are like g0.tx"),
        (down.replace("1ms", "1"), "m.toml:11: at: `1` has no unit; write it like 700ns"),
        (
            down.replace("retrain", "train"),
            "m.toml:13: [[fault]] has no key `train`; it has link, kind, at, for",
        ),
        (down.replace("at = \"1ms\"\n", ""), "m.toml:8: [[fault]] has no `at`; add one such as at = "),
        (slow.replace("0.5x", "half"), "m.toml:13: factor: `half` is no factor; write it like 0.5x"),
        (slow.replace("0.5x", "2x"), "m.toml:13: factor: write a factor above 0 and up to 1"),
        (lanes, "m.toml:13: lanes: `3/2` is not lanes left of all lanes; write it like 1/2"),
        (crc.replace("0.5", "2.5"), "m.toml:11: rate: `2.5` is not a part of the messages; write a number"),
        (crc.replace("seed = 5\n", ""), "m.toml:8: [[fault]] has no `seed`; add one such as seed = 1"),
        (
            format!("{down}{slow}"),
            "m.toml:14: [[fault]] comes while g1.tx is down or slow already; let one end",
        ),
    ];
    for (fault, said) in cases {
        let why = wrong(&wired(&format!("[switch]\nplaces = 2\nport = \"wire\"\n{fault}")));
        assert!(why.starts_with(said), "{fault}\nsays: {why}");
    }
}
