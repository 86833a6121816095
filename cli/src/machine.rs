//! The declared machine on the command line of what starts ranks.

use penny::fabric::live::Machine;

/// What machine ranks stand on.
#[derive(clap::Args)]
pub struct MachineArgs {
    /// Machine whose time is told: a preset, a preset with arguments (dgx-h100:nodes=2), or a TOML file
    #[arg(long, value_name = "MACHINE")]
    fabric: Option<String>,
    /// Nodes of the preset: the same as :nodes=N after its name
    #[arg(long, value_name = "N", requires = "fabric", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// virtual: the machine's time is told; paced:D: calls also take it, D times slower
    #[arg(long, value_name = "CLOCK", requires = "fabric")]
    clock: Option<String>,
}

/// A machine with `--nodes` added to its arguments.
pub fn spec(fabric: &str, nodes: Option<u32>) -> String {
    match nodes {
        None => fabric.to_owned(),
        Some(nodes) => {
            let sign = if fabric.contains(':') { ',' } else { ':' };
            format!("{fabric}{sign}nodes={nodes}")
        }
    }
}

impl MachineArgs {
    /// The variables by which ranks learn of it. `Err` says why so many ranks cannot stand on it.
    pub fn environment(&self, ranks: u32) -> Result<Vec<(&'static str, String)>, String> {
        let Some(fabric) = &self.fabric else { return Ok(Vec::new()) };
        let spec = spec(fabric, self.nodes);
        let machine = Machine::declared(Some(&spec), self.clock.as_deref()).map_err(|e| e.message)?;
        let places = machine.map_or(0, |machine| machine.network.shape.nranks());
        if ranks > places {
            return Err(format!(
                "-n {ranks}: {spec} has {places} places; give it more nodes or start fewer ranks"
            ));
        }
        let clock = self.clock.clone().map(|clock| ("PENNY_FABRIC_CLOCK", clock));
        Ok([Some(("PENNY_FABRIC", spec)), clock].into_iter().flatten().collect())
    }
}
