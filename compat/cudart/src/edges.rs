//! Edges of graphs: which nodes come before which.

use crate::capture::Step;
use crate::graph::{find, node};
use crate::guard::{Result, cuda_api, invalid, place};
use crate::handles::{self, Handle, lock};
use crate::nodes::list;

/// Reads a node that a program lists.
fn at(nodes: *const Handle, i: usize) -> usize {
    // SAFETY: the program promises as many nodes as it tells at a place that is not NULL.
    unsafe { nodes.add(i).read_unaligned() }.addr()
}

/// Changes edges of a graph. All of them, or none.
fn change(graph: Handle, from: *const Handle, to: *const Handle, count: usize, is_added: bool) -> Result<()> {
    if count > 0 && (from.is_null() || to.is_null()) {
        return invalid("from or to is NULL; pass as many nodes as numDependencies says");
    }
    let graph = find(graph)?;
    let mut nodes = lock(&graph.nodes);
    let mut changed = nodes.clone();
    for i in 0..count {
        let (from, to) = (at(from, i), at(to, i));
        if from == to || !changed.iter().any(|node| node.number == from) {
            return invalid(format!("from[{i}] is not a node of graph, or is to[{i}]"));
        }
        let Some(node) = changed.iter_mut().find(|node| node.number == to) else {
            return invalid(format!("to[{i}] is not a node of graph"));
        };
        let is_new = !node.after.contains(&from);
        if is_new != is_added {
            let state = if is_added { "is there already" } else { "is not there" };
            return invalid(format!("the edge from from[{i}] to to[{i}] {state}"));
        }
        match is_added {
            true => node.after.insert(from),
            false => node.after.remove(&from),
        };
    }
    *nodes = changed;
    Ok(())
}

cuda_api! {
    /// Adds edges.
    fn cudaGraphAddDependencies(graph: Handle, from: *const Handle, to: *const Handle, numDependencies: usize) {
        change(graph, from, to, numDependencies, true)
    }

    /// Removes edges.
    fn cudaGraphRemoveDependencies(graph: Handle, from: *const Handle, to: *const Handle, numDependencies: usize) {
        change(graph, from, to, numDependencies, false)
    }

    /// Tells how many edges a graph has, and which.
    fn cudaGraphGetEdges(graph: Handle, from: *mut Handle, to: *mut Handle, numEdges: *mut usize) {
        let at = place(numEdges, "numEdges")?;
        let graph = find(graph)?;
        let edges: Vec<(usize, usize)> = lock(&graph.nodes)
            .iter()
            .flat_map(|node| node.after.iter().map(|before| (*before, node.number)))
            .collect();
        if from.is_null() != to.is_null() {
            return invalid("only one of from and to is NULL; pass both, or neither");
        }
        let (begins, ends): (Vec<_>, Vec<_>) = edges.into_iter().unzip();
        let mut room = if from.is_null() { 0 } else { at.get() };
        list(&begins, from, place(&raw mut room, "numEdges")?);
        list(&ends, to, at);
        Ok(())
    }

    /// Tells which nodes come after no other.
    fn cudaGraphGetRootNodes(graph: Handle, pRootNodes: *mut Handle, pNumRootNodes: *mut usize) {
        let at = place(pNumRootNodes, "pNumRootNodes")?;
        let graph = find(graph)?;
        let roots: Vec<usize> =
            lock(&graph.nodes).iter().filter(|node| node.after.is_empty()).map(|node| node.number).collect();
        list(&roots, pRootNodes, at);
        Ok(())
    }

    /// Tells which nodes come before a node.
    fn cudaGraphNodeGetDependencies(hNode: Handle, pDependencies: *mut Handle, pNumDependencies: *mut usize) {
        let at = place(pNumDependencies, "pNumDependencies")?;
        let before: Vec<usize> = node(hNode)?.1.after.into_iter().collect();
        list(&before, pDependencies, at);
        Ok(())
    }

    /// Tells which nodes come after a node.
    fn cudaGraphNodeGetDependentNodes(
        hNode: Handle, pDependentNodes: *mut Handle, pNumDependentNodes: *mut usize,
    ) {
        let at = place(pNumDependentNodes, "pNumDependentNodes")?;
        let (graph, of) = node(hNode)?;
        let after: Vec<usize> = lock(&graph.nodes)
            .iter()
            .filter(|node| node.after.contains(&of.number))
            .map(|node| node.number)
            .collect();
        list(&after, pDependentNodes, at);
        Ok(())
    }

    /// Takes a node and its edges out of its graph.
    fn cudaGraphDestroyNode(hNode: Handle) {
        let (graph, gone) = node(hNode)?;
        if let Step::Graph(child) = &gone.step {
            child.destroy();
        }
        let mut nodes = lock(&graph.nodes);
        nodes.retain(|node| node.number != gone.number);
        nodes.iter_mut().for_each(|node| { node.after.remove(&gone.number); });
        Ok(())
    }

    /// Returns the clone of a node in a clone of its graph.
    fn cudaGraphNodeFindInClone(pNode: *mut Handle, originalNode: Handle, clonedGraph: Handle) {
        let at = place(pNode, "pNode")?;
        let clone = find(clonedGraph)?;
        let found = lock(&clone.nodes)
            .iter()
            .find(|node| node.original == originalNode.addr() && node.number != node.original)
            .map(|node| node.number);
        match found {
            Some(number) => at.set(handles::to_c(number)),
            None => return invalid("clonedGraph has no clone of originalNode"),
        }
        Ok(())
    }
}
