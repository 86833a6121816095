//! Graphs: steps that were recorded, and can be repeated.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::{Arc, Mutex};

use crate::capture::{self, MODE, RELAXED, Step};
use crate::codes;
use crate::guard::{Result, cuda_api, fault, invalid, place, set_if_wanted, unsupported};
use crate::handles::{self, Handle, Table, lock};
use crate::operation::{Block, Call, HostFunction, Operation};
use crate::stream;

/// A graph that a program holds: steps with the numbers of their nodes.
pub struct Graph {
    pub number: usize,
    steps: Mutex<Vec<(usize, Step)>>,
}

/// A graph that can be launched: the steps as they were when it was instantiated.
struct Executable {
    flags: c_ulonglong,
    steps: Mutex<Arc<Vec<Step>>>,
}

static GRAPHS: Table<Graph> = Table::new();
static EXECUTABLES: Table<Executable> = Table::new();

impl Graph {
    /// Makes an empty graph.
    pub fn create() -> Arc<Graph> {
        let graph = Arc::new(Graph { number: handles::fresh(), steps: Mutex::default() });
        GRAPHS.insert(graph.number, graph.clone());
        graph
    }

    /// Adds a step; the number of its node.
    pub fn add(&self, step: Step) -> usize {
        let number = handles::fresh();
        lock(&self.steps).push((number, step));
        number
    }

    /// Takes the graph's handle away.
    pub fn destroy(&self) {
        GRAPHS.remove(handles::to_c(self.number));
    }

    fn steps(&self) -> Vec<Step> {
        lock(&self.steps).iter().map(|(_, step)| step.clone()).collect()
    }
}

fn find(graph: Handle) -> Result<Arc<Graph>> {
    match GRAPHS.get(graph) {
        Some(found) => Ok(found),
        None => {
            invalid("graph is not a live graph: it was destroyed already, or is the handle of something else")
        }
    }
}

fn find_executable(graph: Handle) -> Result<Arc<Executable>> {
    match EXECUTABLES.get(graph) {
        Some(found) => Ok(found),
        None => invalid("graphExec is not a live executable graph; make one with cudaGraphInstantiate"),
    }
}

fn instantiate(at: *mut Handle, graph: Handle, flags: c_ulonglong) -> Result<()> {
    let at = place(at, "pGraphExec")?;
    let steps = Mutex::new(Arc::new(find(graph)?.steps()));
    let number = handles::fresh();
    EXECUTABLES.insert(number, Arc::new(Executable { flags, steps }));
    at.set(handles::to_c(number));
    Ok(())
}

/// Adds a node that a program describes. Its dependencies were added before it, so they also run before it.
fn add(at: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, step: Step) -> Result<()> {
    let at = place(at, "pGraphNode")?;
    if count > 0 && dependencies.is_null() {
        return invalid("pDependencies is NULL; pass as many nodes as numDependencies says");
    }
    let graph = find(graph)?;
    {
        let steps = lock(&graph.steps);
        for i in 0..count {
            // SAFETY: the program promises `count` nodes at a place that is not NULL.
            let node = unsafe { dependencies.add(i).read_unaligned() };
            if !steps.iter().any(|(number, _)| *number == node.addr()) {
                return invalid(format!("pDependencies[{i}] is not a node of graph"));
            }
        }
    }
    at.set(handles::to_c(graph.add(step)));
    Ok(())
}

fn kind(step: &Step) -> c_int {
    match step {
        Step::Operation(Operation::Copy { .. }) => 1,
        Step::Operation(Operation::Set { .. }) => 2,
        Step::Operation(Operation::Call(_)) => 3,
        Step::Operation(Operation::Free(_)) => 11,
        Step::Empty => 5,
        // A program that asks sees what it would see of NCCL: a kernel.
        Step::Foreign(_) | Step::Operation(Operation::Kernel(..)) => 0,
    }
}

fn info(
    stream: Handle,
    status: *mut c_int,
    id: *mut c_ulonglong,
    graph: *mut Handle,
    dependencies: *mut *const Handle,
    count: *mut usize,
) -> Result<()> {
    let at = place(status, "captureStatus_out")?;
    let (status, capture) = capture::status(&*stream::find(stream)?)?;
    at.set(status);
    if let Some(capture) = capture {
        set_if_wanted(id, capture.id as c_ulonglong);
        set_if_wanted(graph, handles::to_c(capture.graph.number));
    }
    set_if_wanted(dependencies, std::ptr::null());
    set_if_wanted(count, 0);
    Ok(())
}

cuda_api! {
    /// Begins to record the stream's operations.
    fn cudaStreamBeginCapture(stream: Handle, mode: c_int) {
        capture::begin(&stream::find(stream)?, mode)
    }

    /// Ends the recording; the graph of what was recorded.
    fn cudaStreamEndCapture(stream: Handle, pGraph: *mut Handle) {
        let at = place(pGraph, "pGraph")?;
        match capture::end(&stream::find(stream)?) {
            Ok(graph) => at.set(handles::to_c(graph.number)),
            Err(fault) => {
                at.set(std::ptr::null_mut());
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Tells whether the stream's operations are recorded.
    fn cudaStreamIsCapturing(stream: Handle, pCaptureStatus: *mut c_int) {
        let at = place(pCaptureStatus, "pCaptureStatus")?;
        at.set(capture::status(&*stream::find(stream)?)?.0);
        Ok(())
    }

    /// Tells about the recording of a stream.
    fn cudaStreamGetCaptureInfo(stream: Handle, status: *mut c_int, id: *mut c_ulonglong) {
        let none = std::ptr::null_mut();
        info(stream, status, id, none, std::ptr::null_mut(), std::ptr::null_mut())
    }

    /// Tells about the recording of a stream. There are no dependencies to be told: steps run in their order.
    fn cudaStreamGetCaptureInfo_v2(
        stream: Handle, status: *mut c_int, id: *mut c_ulonglong, graph: *mut Handle,
        dependencies: *mut *const Handle, numDependencies: *mut usize,
    ) {
        info(stream, status, id, graph, dependencies, numDependencies)
    }

    /// Exchanges the thread's mode, which has no effect here: no call is refused because another thread captures.
    fn cudaThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        let at = place(mode, "mode")?;
        let wanted = at.get();
        if !(0..=RELAXED).contains(&wanted) {
            return invalid(format!("*mode is {wanted}; pass a cudaStreamCaptureMode"));
        }
        at.set(MODE.replace(wanted));
        Ok(())
    }

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
        let original = find(originalGraph)?;
        let clone = Graph::create();
        original.steps().into_iter().for_each(|step| { clone.add(step); });
        at.set(handles::to_c(clone.number));
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
        let steps = lock(&find_executable(graphExec)?.steps).clone();
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
        let steps = find(graph)?.steps();
        let mut present = lock(&executable.steps);
        let is_alike = steps.len() == present.len()
            && steps.iter().zip(present.iter()).all(|(new, old)| kind(new) == kind(old));
        let none = std::ptr::null_mut();
        at.set(UpdateResult { result: if is_alike { 0 } else { 2 }, node: none, from: none });
        if !is_alike {
            return fault(
                codes::cudaErrorGraphExecUpdateFailure,
                "graph has other steps than graphExec; instantiate it anew",
            );
        }
        *present = Arc::new(steps);
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
        let graph = find(graph)?;
        let steps = lock(&graph.steps);
        if nodes.is_null() {
            at.set(steps.len());
            return Ok(());
        }
        let room = at.get();
        for i in 0..room {
            let node = steps.get(i).map_or(std::ptr::null_mut(), |(number, _)| handles::to_c(*number));
            // SAFETY: the program promises `*numNodes` places at an address that is not NULL.
            unsafe { nodes.add(i).write_unaligned(node) };
        }
        at.set(room.min(steps.len()));
        Ok(())
    }

    /// Tells what a node does.
    fn cudaGraphNodeGetType(node: Handle, pType: *mut c_int) {
        let at = place(pType, "pType")?;
        for (_, graph) in GRAPHS.all() {
            if let Some((_, step)) = lock(&graph.steps).iter().find(|(number, _)| *number == node.addr()) {
                at.set(kind(step));
                return Ok(());
            }
        }
        invalid("node is not a node of a live graph")
    }

    /// Adds a node that does nothing.
    fn cudaGraphAddEmptyNode(
        pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize,
    ) {
        add(pGraphNode, graph, pDependencies, numDependencies, Step::Empty)
    }

    /// Adds a call of a function of the program.
    fn cudaGraphAddHostNode(
        pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize,
        pNodeParams: *const HostNode,
    ) {
        let node = crate::guard::read(pNodeParams, "pNodeParams")?;
        let Some(function) = node.function else { return invalid("pNodeParams->fn is NULL; pass a function") };
        let call = Call::Host(function, node.data.expose_provenance());
        add(pGraphNode, graph, pDependencies, numDependencies, Step::Operation(Operation::Call(call)))
    }

    /// Adds a copy.
    fn cudaGraphAddMemcpyNode1D(
        pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize,
        dst: *mut c_void, src: *const c_void, count: usize, _kind: c_int,
    ) {
        let (to, from) = (dst.expose_provenance(), src.expose_provenance());
        let copy = Operation::copy(Block { at: to, pitch: 0 }, Block { at: from, pitch: 0 }, count, 1)?;
        add(pGraphNode, graph, pDependencies, numDependencies, Step::Operation(copy))
    }

    /// Adds a set of memory.
    fn cudaGraphAddMemsetNode(
        pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize,
        pMemsetParams: *const MemsetNode,
    ) {
        let node = crate::guard::read(pMemsetParams, "pMemsetParams")?;
        let bytes = node.value.to_le_bytes();
        let Some(element) = bytes.get(..node.element as usize).filter(|_| matches!(node.element, 1 | 2 | 4)) else {
            return invalid(format!("pMemsetParams->elementSize is {}; pass 1, 2 or 4", node.element));
        };
        if element.iter().any(|byte| *byte != element[0]) {
            return unsupported(format!(
                "pMemsetParams->value is {:#x}, whose {} bytes differ; add a host node that writes it with cudaGraphAddHostNode",
                node.value, node.element
            ));
        }
        let Some(width) = node.width.checked_mul(node.element as usize) else {
            return invalid(format!("pMemsetParams->width is {}, more than memory can hold", node.width));
        };
        let at = Block { at: node.at.expose_provenance(), pitch: node.pitch };
        let set = Operation::set(at, element[0].into(), width, node.height)?;
        add(pGraphNode, graph, pDependencies, numDependencies, Step::Operation(set))
    }

    /// Refuses a kernel.
    fn cudaGraphAddKernelNode(
        _node: *mut Handle, _graph: Handle, _dependencies: *const Handle, _count: usize, _params: *const c_void,
    ) {
        unsupported("no kernel is added by itself; capture its launch with cudaStreamBeginCapture")
    }

    /// Refuses to write a drawing of the graph.
    fn cudaGraphDebugDotPrint(graph: Handle, _path: *const c_char, _flags: c_uint) {
        find(graph)?;
        unsupported("graphs are not drawn")
    }
}

/// What a function of the program is added with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostNode {
    function: HostFunction,
    data: *mut c_void,
}

/// What a set of memory is added with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemsetNode {
    at: *mut c_void,
    pitch: usize,
    value: c_uint,
    /// Bytes of an element.
    element: c_uint,
    /// Elements of a row.
    width: usize,
    height: usize,
}

/// What an update of an executable graph came to.
#[repr(C)]
pub struct UpdateResult {
    result: c_int,
    node: Handle,
    from: Handle,
}
