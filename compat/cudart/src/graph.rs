//! Graphs: nodes with steps, which a program captures or adds one by one, and repeats.
//!
//! ```text
//!     Graph         nodes: a number, a step, the nodes before it
//!     Executable    a copy of a graph with the same numbers, and its steps as one sequence that the edges allow
//! ```
//!
//! A node that was captured comes after the one that was captured before it. A child graph is a step that has a graph of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong};
use std::sync::{Arc, Mutex};

use crate::capture::{self, Step};
use crate::codes;
use crate::guard::{Result, cuda_api, fault, invalid, place, unsupported};
use crate::handles::{self, Handle, Table, lock};
use crate::operation::Operation;
use crate::stream;

/// A graph that a program holds.
pub struct Graph {
    pub number: usize,
    pub nodes: Mutex<Vec<Node>>,
}

/// A node of a graph.
#[derive(Clone)]
pub struct Node {
    pub number: usize,
    pub step: Step,
    /// The nodes that come before it.
    pub after: BTreeSet<usize>,
    /// The node of which it is a clone, or itself.
    pub original: usize,
}

/// A graph that can be launched.
pub struct Executable {
    flags: c_ulonglong,
    state: Mutex<State>,
}

struct State {
    graph: Arc<Graph>,
    steps: Arc<Vec<Step>>,
}

static GRAPHS: Table<Graph> = Table::new();
static EXECUTABLES: Table<Executable> = Table::new();

impl Graph {
    /// Makes an empty graph.
    pub fn create() -> Arc<Graph> {
        Graph::of(Vec::new())
    }

    fn of(nodes: Vec<Node>) -> Arc<Graph> {
        let graph = Arc::new(Graph { number: handles::fresh(), nodes: Mutex::new(nodes) });
        GRAPHS.insert(graph.number, graph.clone());
        graph
    }

    /// Adds a step that was captured: it comes after the last.
    pub fn add(&self, step: Step) {
        let after = lock(&self.nodes).last().map(|last| last.number).into_iter().collect();
        self.add_after(step, after);
    }

    /// Adds a step; the number of its node.
    pub fn add_after(&self, step: Step, after: BTreeSet<usize>) -> usize {
        let number = handles::fresh();
        lock(&self.nodes).push(Node { number, step, after, original: number });
        number
    }

    /// Takes the handles of the graph and of its children away.
    pub fn destroy(&self) {
        GRAPHS.remove(handles::to_c(self.number));
        for node in lock(&self.nodes).iter() {
            if let Step::Graph(child) = &node.step {
                child.destroy();
            }
        }
    }

    /// Returns a graph of its own with the same steps and edges, whose nodes have numbers of their own.
    pub fn copy(&self) -> Arc<Graph> {
        let mut nodes = lock(&self.nodes).clone();
        let numbers: BTreeMap<usize, usize> =
            nodes.iter().map(|node| (node.number, handles::fresh())).collect();
        for node in &mut nodes {
            node.original = node.number;
            node.number = numbers[&node.number];
            node.after = node.after.iter().map(|before| numbers[before]).collect();
            if let Step::Graph(child) = &node.step {
                node.step = Step::Graph(child.copy());
            }
        }
        Graph::of(nodes)
    }

    /// Returns a copy whose nodes have the same numbers, without a handle.
    fn snapshot(&self) -> Arc<Graph> {
        let mut nodes = lock(&self.nodes).clone();
        for node in &mut nodes {
            if let Step::Graph(child) = &node.step {
                node.step = Step::Graph(child.snapshot());
            }
        }
        Arc::new(Graph { number: 0, nodes: Mutex::new(nodes) })
    }

    /// Appends its steps, those of its children in their places, in an order that its edges allow: that of their addition, as far as
    /// they do.
    fn sequence(&self, steps: &mut Vec<Step>) -> Result<()> {
        let mut nodes = lock(&self.nodes).clone();
        let mut over = BTreeSet::new();
        // BOUND: each round takes a node out, or ends.
        while !nodes.is_empty() {
            let mut later = Vec::new();
            let before = nodes.len();
            for node in nodes {
                if !node.after.is_subset(&over) {
                    later.push(node);
                    continue;
                }
                over.insert(node.number);
                match node.step {
                    Step::Graph(child) => child.sequence(steps)?,
                    step => steps.push(step),
                }
            }
            if later.len() == before {
                return invalid(
                    "graph has nodes that come after each other in a circle; remove an edge of it",
                );
            }
            nodes = later;
        }
        Ok(())
    }

    /// Takes the steps of another graph that has the same kinds of nodes in the same order. Returns whether it has.
    fn take_steps(&self, other: &Graph) -> bool {
        let mut mine = lock(&self.nodes);
        let theirs = lock(&other.nodes);
        let is_alike = mine.len() == theirs.len()
            && mine.iter_mut().zip(theirs.iter()).all(|(mine, theirs)| match (&mine.step, &theirs.step) {
                (Step::Graph(mine), Step::Graph(theirs)) => mine.take_steps(theirs),
                (mine, theirs) => kind(mine) == kind(theirs),
            });
        if is_alike {
            for (mine, theirs) in mine.iter_mut().zip(theirs.iter()) {
                if !matches!(mine.step, Step::Graph(_)) {
                    mine.step = theirs.step.clone();
                }
            }
        }
        is_alike
    }

    /// Does something with the node of a number, here or in a child.
    fn with_node(&self, number: usize, act: &mut dyn FnMut(&mut Node) -> Result<()>) -> Option<Result<()>> {
        for node in lock(&self.nodes).iter_mut() {
            if node.number == number {
                return Some(act(node));
            }
            if let Step::Graph(child) = &node.step
                && let Some(done) = child.with_node(number, act)
            {
                return Some(done);
            }
        }
        None
    }
}

impl Executable {
    /// Gives a node another step of the same kind.
    pub fn set(&self, node: Handle, step: Step) -> Result<()> {
        let mut state = lock(&self.state);
        let (mut step, graph) = (Some(step), state.graph.snapshot());
        let set = graph.with_node(node.addr(), &mut |node| replace(node, step.take()));
        set.unwrap_or_else(|| invalid("node is not a node of the graph that graphExec was made of"))?;
        let mut steps = Vec::new();
        graph.sequence(&mut steps)?;
        *state = State { graph, steps: Arc::new(steps) };
        Ok(())
    }

    fn steps(&self) -> Arc<Vec<Step>> {
        lock(&self.state).steps.clone()
    }
}

/// Gives a node another step of the same kind.
fn replace(node: &mut Node, step: Option<Step>) -> Result<()> {
    let Some(step) = step.filter(|step| kind(step) == kind(&node.step)) else {
        return invalid("node is of another kind; pass a node that was added by the function of this name");
    };
    if let (Step::Graph(old), Step::Graph(new)) = (&node.step, &step) {
        if !old.take_steps(new) {
            return invalid("childGraph has other nodes than the child of node; pass one with the same");
        }
        return Ok(());
    }
    node.step = step;
    Ok(())
}

/// Returns the graph of a handle.
pub fn find(graph: Handle) -> Result<Arc<Graph>> {
    match GRAPHS.get(graph) {
        Some(found) => Ok(found),
        None => {
            invalid("graph is not a live graph: it was destroyed already, or is the handle of something else")
        }
    }
}

/// Returns the executable graph of a handle.
pub fn find_executable(graph: Handle) -> Result<Arc<Executable>> {
    match EXECUTABLES.get(graph) {
        Some(found) => Ok(found),
        None => invalid("graphExec is not a live executable graph; make one with cudaGraphInstantiate"),
    }
}

/// Returns the graph of a node, and the node as it is.
pub fn node(handle: Handle) -> Result<(Arc<Graph>, Node)> {
    for (_, graph) in GRAPHS.all() {
        let found = lock(&graph.nodes).iter().find(|node| node.number == handle.addr()).cloned();
        if let Some(node) = found {
            return Ok((graph, node));
        }
    }
    invalid("node is not a node of a live graph")
}

/// Gives a node of a graph another step of the same kind.
pub fn set(handle: Handle, step: Step) -> Result<()> {
    let (graph, _) = node(handle)?;
    let mut step = Some(step);
    let set = graph.with_node(handle.addr(), &mut |node| replace(node, step.take()));
    set.unwrap_or_else(|| invalid("node is not a node of a live graph"))
}

fn instantiate(at: *mut Handle, graph: Handle, flags: c_ulonglong) -> Result<()> {
    let at = place(at, "pGraphExec")?;
    let (graph, mut steps) = (find(graph)?.snapshot(), Vec::new());
    graph.sequence(&mut steps)?;
    let state = Mutex::new(State { graph, steps: Arc::new(steps) });
    let number = handles::fresh();
    EXECUTABLES.insert(number, Arc::new(Executable { flags, state }));
    at.set(handles::to_c(number));
    Ok(())
}

/// Returns the number of a step's kind, as cudaGraphNodeType has it.
pub fn kind(step: &Step) -> c_int {
    match step {
        Step::Operation(Operation::Copy { .. }) => 1,
        Step::Operation(Operation::Set { .. }) => 2,
        Step::Operation(Operation::Call(_)) => 3,
        Step::Operation(Operation::Free(_)) => 11,
        Step::Graph(_) => 4,
        Step::Empty => 5,
        Step::Wait(_) => 6,
        Step::Record(_) => 7,
        // A program that asks sees what it would see of NCCL: a kernel.
        Step::Foreign(_) | Step::Operation(Operation::Kernel(..)) => 0,
    }
}

cuda_api! {
    /// Makes an empty graph.
    fn cudaGraphCreate(pGraph: *mut Handle, flags: c_uint) {
        let at = place(pGraph, "pGraph")?;
        if flags != 0 {
            return invalid(format!("flags is {flags}; pass 0"));
        }
        at.set(handles::to_c(Graph::create().number));
        Ok(())
    }

    /// Makes a graph with the same steps.
    fn cudaGraphClone(pGraphClone: *mut Handle, originalGraph: Handle) {
        let at = place(pGraphClone, "pGraphClone")?;
        at.set(handles::to_c(find(originalGraph)?.copy().number));
        Ok(())
    }

    /// Destroys a graph. Executable graphs that were made of it stay.
    fn cudaGraphDestroy(graph: Handle) {
        find(graph)?.destroy();
        Ok(())
    }

    /// Makes an executable graph of a graph's present steps.
    fn cudaGraphInstantiate(pGraphExec: *mut Handle, graph: Handle, flags: c_ulonglong) {
        instantiate(pGraphExec, graph, flags)
    }

    /// Makes an executable graph of a graph's present steps.
    fn cudaGraphInstantiateWithFlags(pGraphExec: *mut Handle, graph: Handle, flags: c_ulonglong) {
        instantiate(pGraphExec, graph, flags)
    }

    /// Returns the flags of an executable graph.
    fn cudaGraphExecGetFlags(graphExec: Handle, flags: *mut c_ulonglong) {
        let at = place(flags, "flags")?;
        at.set(find_executable(graphExec)?.flags);
        Ok(())
    }

    /// Queues the steps of a graph, one after another; on a captured stream they are recorded. If a call of another library is refused,
    /// the steps before it are queued, and those after it are not.
    fn cudaGraphLaunch(graphExec: Handle, stream: Handle) {
        let steps = find_executable(graphExec)?.steps();
        let stream = stream::find(stream)?;
        for step in steps.iter() {
            if !capture::record(&stream, || step.clone())? {
                return stream.replay(&steps);
            }
        }
        Ok(())
    }

    /// Does nothing: a graph is in the host's memory.
    fn cudaGraphUpload(graphExec: Handle, stream: Handle) {
        find_executable(graphExec)?;
        stream::find(stream).map(drop)
    }

    /// Gives an executable graph the steps of another graph that has the same kinds of steps.
    fn cudaGraphExecUpdate(graphExec: Handle, graph: Handle, resultInfo: *mut UpdateResult) {
        let at = place(resultInfo, "resultInfo")?;
        let executable = find_executable(graphExec)?;
        let graph = find(graph)?;
        let mut state = lock(&executable.state);
        // What is launched meanwhile has the steps of before.
        let (taking, mut steps) = (state.graph.snapshot(), Vec::new());
        let is_alike = taking.take_steps(&graph.snapshot());
        let none = std::ptr::null_mut();
        at.set(UpdateResult { result: if is_alike { 0 } else { 2 }, node: none, from: none });
        if !is_alike {
            return fault(
                codes::cudaErrorGraphExecUpdateFailure,
                "graph has other steps than graphExec; instantiate it anew",
            );
        }
        taking.sequence(&mut steps)?;
        *state = State { graph: taking, steps: Arc::new(steps) };
        Ok(())
    }

    /// Destroys an executable graph. Steps that were queued still run.
    fn cudaGraphExecDestroy(graphExec: Handle) {
        find_executable(graphExec)?;
        EXECUTABLES.remove(graphExec);
        Ok(())
    }

    /// Tells how many nodes a graph has, and which.
    fn cudaGraphGetNodes(graph: Handle, nodes: *mut Handle, numNodes: *mut usize) {
        let at = place(numNodes, "numNodes")?;
        let nodes_of = lock(&find(graph)?.nodes).iter().map(|node| node.number).collect::<Vec<_>>();
        crate::nodes::list(&nodes_of, nodes, at);
        Ok(())
    }

    /// Tells what a node does.
    fn cudaGraphNodeGetType(handle: Handle, pType: *mut c_int) {
        let at = place(pType, "pType")?;
        at.set(kind(&node(handle)?.1.step));
        Ok(())
    }

    /// Refuses to write a drawing of the graph.
    fn cudaGraphDebugDotPrint(graph: Handle, _path: *const c_char, _flags: c_uint) {
        find(graph)?;
        unsupported("graphs are not drawn")
    }
}

/// What an update of an executable graph came to.
#[repr(C)]
pub struct UpdateResult {
    result: c_int,
    node: Handle,
    from: Handle,
}
