//! Nodes that a program adds to a graph one by one, and their parameters.
//!
//! The parameters of a node can be read and changed, in a graph and in an executable graph, whichever way the node was made.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint, c_void};

use crate::capture::Step;
use crate::graph::{self, find, find_executable, set};
use crate::guard::{self, Place, Result, cuda_api, invalid, place, unsupported};
use crate::handles::{self, Handle, lock};
use crate::launch::{self, dim3};
use crate::operation::{Block, Call, HostFunction, Operation};
use crate::{copy, event};

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

/// What a kernel is added with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNode {
    function: *const c_void,
    grid: dim3,
    block: dim3,
    shared: c_uint,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
}

/// Reads nodes that a program lists.
fn listed(nodes: *const Handle, count: usize, name: &str) -> Result<Vec<usize>> {
    if count > 0 && nodes.is_null() {
        return invalid(format!("{name} is NULL; pass as many nodes as numDependencies says"));
    }
    // SAFETY: the program promises `count` nodes at a place that is not NULL.
    Ok((0..count).map(|i| unsafe { nodes.add(i).read_unaligned() }.addr()).collect())
}

/// Lists nodes for a program: their number, or as many as it has room for.
pub fn list(all: &[usize], nodes: *mut Handle, count: Place<usize>) {
    if nodes.is_null() {
        return count.set(all.len());
    }
    let room = count.get();
    for i in 0..room {
        let node = all.get(i).map_or(std::ptr::null_mut(), |number| handles::to_c(*number));
        // SAFETY: the program promises as many places as it has told at an address that is not NULL.
        unsafe { nodes.add(i).write_unaligned(node) };
    }
    count.set(room.min(all.len()));
}

/// Adds a node that a program describes.
fn add(at: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, step: Step) -> Result<()> {
    let at = place(at, "pGraphNode")?;
    let before = listed(dependencies, count, "pDependencies")?;
    let graph = find(graph)?;
    let known: BTreeSet<usize> = lock(&graph.nodes).iter().map(|node| node.number).collect();
    if let Some(i) = before.iter().position(|number| !known.contains(number)) {
        return invalid(format!("pDependencies[{i}] is not a node of graph"));
    }
    at.set(handles::to_c(graph.add_after(step, before.into_iter().collect())));
    Ok(())
}

/// Gives a node of an executable graph another step.
fn set_in(executable: Handle, node: Handle, step: Step) -> Result<()> {
    find_executable(executable)?.set(node, step)
}

fn host(parameters: *const HostNode) -> Result<Step> {
    let node = guard::read(parameters, "pNodeParams")?;
    let Some(function) = node.function else { return invalid("pNodeParams->fn is NULL; pass a function") };
    Ok(Step::Operation(Operation::Call(Call::Host(function, node.data.expose_provenance()))))
}

fn row(dst: *mut c_void, src: *const c_void, count: usize, kind: c_int) -> Result<Step> {
    copy::row(dst, src, count, kind).map(Step::Operation)
}

fn memset(parameters: *const MemsetNode) -> Result<Step> {
    let node = guard::read(parameters, "pMemsetParams")?;
    if !matches!(node.element, 1 | 2 | 4) {
        return invalid(format!("pMemsetParams->elementSize is {}; pass 1, 2 or 4", node.element));
    }
    let Some(width) = node.width.checked_mul(node.element as usize) else {
        return invalid(format!("pMemsetParams->width is {}, more than memory can hold", node.width));
    };
    let at = Block { at: node.at.expose_provenance(), pitch: node.pitch };
    Operation::set(at, node.value, node.element as usize, width, node.height).map(Step::Operation)
}

fn kernel(parameters: *const KernelNode) -> Result<Step> {
    let node = guard::read(parameters, "pNodeParams")?;
    if !node.extra.is_null() {
        return unsupported(
            "pNodeParams->extra is not NULL; pass the addresses of the arguments in kernelParams",
        );
    }
    let shared = node.shared as usize;
    launch::prepare(node.function, node.grid, node.block, node.parameters, shared).map(Step::Operation)
}

/// The error of a node of another kind.
fn other_kind<T>(wanted: &str) -> Result<T> {
    invalid(format!("node is no {wanted} node; ask cudaGraphNodeGetType what it is"))
}

cuda_api! {
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
        add(pGraphNode, graph, pDependencies, numDependencies, host(pNodeParams)?)
    }

    /// Tells the function of a node.
    fn cudaGraphHostNodeGetParams(node: Handle, pNodeParams: *mut HostNode) {
        let at = place(pNodeParams, "pNodeParams")?;
        let Step::Operation(Operation::Call(Call::Host(function, data))) = graph::node(node)?.1.step else {
            return other_kind("host");
        };
        at.set(HostNode { function: Some(function), data: std::ptr::with_exposed_provenance_mut(data) });
        Ok(())
    }

    /// Changes the function of a node.
    fn cudaGraphHostNodeSetParams(node: Handle, pNodeParams: *const HostNode) {
        set(node, host(pNodeParams)?)
    }

    /// Changes the function of a node of an executable graph.
    fn cudaGraphExecHostNodeSetParams(hGraphExec: Handle, node: Handle, pNodeParams: *const HostNode) {
        set_in(hGraphExec, node, host(pNodeParams)?)
    }

    /// Adds a copy.
    fn cudaGraphAddMemcpyNode1D(
        pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize,
        dst: *mut c_void, src: *const c_void, count: usize, kind: c_int,
    ) {
        add(pGraphNode, graph, pDependencies, numDependencies, row(dst, src, count, kind)?)
    }

    /// Changes a copy.
    fn cudaGraphMemcpyNodeSetParams1D(
        node: Handle, dst: *mut c_void, src: *const c_void, count: usize, kind: c_int,
    ) {
        set(node, row(dst, src, count, kind)?)
    }

    /// Changes a copy of an executable graph.
    fn cudaGraphExecMemcpyNodeSetParams1D(
        hGraphExec: Handle, node: Handle, dst: *mut c_void, src: *const c_void, count: usize, kind: c_int,
    ) {
        set_in(hGraphExec, node, row(dst, src, count, kind)?)
    }

    /// Adds a set of memory.
    fn cudaGraphAddMemsetNode(
        pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize,
        pMemsetParams: *const MemsetNode,
    ) {
        add(pGraphNode, graph, pDependencies, numDependencies, memset(pMemsetParams)?)
    }

    /// Tells what a set of memory does.
    fn cudaGraphMemsetNodeGetParams(node: Handle, pNodeParams: *mut MemsetNode) {
        let at = place(pNodeParams, "pNodeParams")?;
        let Step::Operation(Operation::Set { at: block, value, element, width, height }) = graph::node(node)?.1.step
        else {
            return other_kind("memset");
        };
        at.set(MemsetNode {
            at: std::ptr::with_exposed_provenance_mut(block.at),
            pitch: block.pitch,
            value,
            element: element as c_uint,
            width: width / element,
            height,
        });
        Ok(())
    }

    /// Changes a set of memory.
    fn cudaGraphMemsetNodeSetParams(node: Handle, pNodeParams: *const MemsetNode) {
        set(node, memset(pNodeParams)?)
    }

    /// Changes a set of memory of an executable graph.
    fn cudaGraphExecMemsetNodeSetParams(hGraphExec: Handle, node: Handle, pNodeParams: *const MemsetNode) {
        set_in(hGraphExec, node, memset(pNodeParams)?)
    }

    /// Adds a kernel that penny-nvcc has compiled. The arguments are copied.
    fn cudaGraphAddKernelNode(
        pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize,
        pNodeParams: *const KernelNode,
    ) {
        add(pGraphNode, graph, pDependencies, numDependencies, kernel(pNodeParams)?)
    }

    /// Tells what a kernel is launched with. The arguments stay where they are told until the node is changed or its graph destroyed.
    fn cudaGraphKernelNodeGetParams(node: Handle, pNodeParams: *mut KernelNode) {
        let at = place(pNodeParams, "pNodeParams")?;
        let Step::Operation(Operation::Kernel(call, shape)) = graph::node(node)?.1.step else {
            return other_kind("kernel");
        };
        at.set(KernelNode {
            function: call.function(),
            grid: dim3::of(shape.grid),
            block: dim3::of(shape.block),
            shared: shape.shared as c_uint,
            parameters: call.places(),
            extra: std::ptr::null_mut(),
        });
        Ok(())
    }

    /// Changes what a kernel is launched with.
    fn cudaGraphKernelNodeSetParams(node: Handle, pNodeParams: *const KernelNode) {
        set(node, kernel(pNodeParams)?)
    }

    /// Changes what a kernel of an executable graph is launched with.
    fn cudaGraphExecKernelNodeSetParams(hGraphExec: Handle, node: Handle, pNodeParams: *const KernelNode) {
        set_in(hGraphExec, node, kernel(pNodeParams)?)
    }

    /// Adds a copy of a graph, which runs in the node's place.
    fn cudaGraphAddChildGraphNode(
        pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize,
        childGraph: Handle,
    ) {
        let child = find(childGraph)?.copy();
        let added = add(pGraphNode, graph, pDependencies, numDependencies, Step::Graph(child.clone()));
        added.inspect_err(|_| child.destroy())
    }

    /// Returns the copy of a graph that a node runs. It is the node's.
    fn cudaGraphChildGraphNodeGetGraph(node: Handle, pGraph: *mut Handle) {
        let at = place(pGraph, "pGraph")?;
        let Step::Graph(child) = graph::node(node)?.1.step else { return other_kind("child graph") };
        at.set(handles::to_c(child.number));
        Ok(())
    }

    /// Gives the copy of a graph that a node of an executable graph runs the steps of another with the same kinds of nodes.
    fn cudaGraphExecChildGraphNodeSetParams(hGraphExec: Handle, node: Handle, childGraph: Handle) {
        set_in(hGraphExec, node, Step::Graph(find(childGraph)?))
    }

    /// Adds a node that records an event.
    fn cudaGraphAddEventRecordNode(
        pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize, event: Handle,
    ) {
        add(pGraphNode, graph, pDependencies, numDependencies, Step::Record(event::find(event)?))
    }

    /// Adds a node that waits for an event, as it was recorded last when the graph is launched.
    fn cudaGraphAddEventWaitNode(
        pGraphNode: *mut Handle, graph: Handle, pDependencies: *const Handle, numDependencies: usize, event: Handle,
    ) {
        add(pGraphNode, graph, pDependencies, numDependencies, Step::Wait(event::find(event)?))
    }

    /// Returns the event that a node records.
    fn cudaGraphEventRecordNodeGetEvent(node: Handle, event_out: *mut Handle) {
        let at = place(event_out, "event_out")?;
        let Step::Record(event) = graph::node(node)?.1.step else { return other_kind("event record") };
        at.set(handles::to_c(event.number()));
        Ok(())
    }

    /// Returns the event that a node waits for.
    fn cudaGraphEventWaitNodeGetEvent(node: Handle, event_out: *mut Handle) {
        let at = place(event_out, "event_out")?;
        let Step::Wait(event) = graph::node(node)?.1.step else { return other_kind("event wait") };
        at.set(handles::to_c(event.number()));
        Ok(())
    }

    /// Changes the event that a node records.
    fn cudaGraphEventRecordNodeSetEvent(node: Handle, event: Handle) {
        set(node, Step::Record(event::find(event)?))
    }

    /// Changes the event that a node waits for.
    fn cudaGraphEventWaitNodeSetEvent(node: Handle, event: Handle) {
        set(node, Step::Wait(event::find(event)?))
    }

    /// Changes the event that a node of an executable graph records.
    fn cudaGraphExecEventRecordNodeSetEvent(hGraphExec: Handle, hNode: Handle, event: Handle) {
        set_in(hGraphExec, hNode, Step::Record(event::find(event)?))
    }

    /// Changes the event that a node of an executable graph waits for.
    fn cudaGraphExecEventWaitNodeSetEvent(hGraphExec: Handle, hNode: Handle, event: Handle) {
        set_in(hGraphExec, hNode, Step::Wait(event::find(event)?))
    }
}
