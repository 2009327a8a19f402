//! The three programs, as the library's own examples and algorithms write them.

use differential_dataflow::AsCollection;
use differential_dataflow::VecCollection;
use differential_dataflow::algorithms::graphs::propagate::propagate_at;
use differential_dataflow::lattice::Lattice;
use differential_dataflow::operators::iterate::Variable;
use differential_dataflow::trace::implementations::{ValBuilder, ValSpine};
use std::hash::Hash;
use timely::dataflow::operators::vec::Filter;
use timely::order::Product;
use timely::progress::Timestamp;

use crate::{Edge, Node};

/// Each node that can be reached from a root, with the length of the shortest path: `examples/bfs`
/// with lengths in place of steps, written as `propagate_core` is in the library, so that what
/// `reduce` arranges is what the join reads.
pub fn shortest_paths<'s, T>(
    edges: VecCollection<'s, T, Edge>,
    roots: VecCollection<'s, T, Node>,
) -> VecCollection<'s, T, (Node, u64)>
where
    T: Timestamp + Lattice + Hash,
{
    let nodes = roots.map(|root| (root, 0));
    let edges = edges.arrange_by_key();
    let outer = nodes.scope();
    outer.iterative::<u32, _, _>(|inner| {
        let edges = edges.enter(inner);
        let nodes = nodes.enter(inner);
        let (bind, proposals) = Variable::new(inner, Product::new(Default::default(), 1));
        let lengths = proposals
            .concat(nodes)
            .reduce_abelian::<_, ValBuilder<_, _, _, _>, ValSpine<_, _, _, _>>(
                "ShortestPaths",
                |_node, all, least| least.push((*all[0].0, 1)),
            );
        bind.set(
            lengths
                .clone()
                .join_core(edges, |_from, length: &u64, (to, value)| {
                    Some((*to, length + u64::from(*value)))
                }),
        );
        lengths
            .as_collection(|node, length| (*node, *length))
            .leave(outer)
    })
}

/// Each node with the least node of its component: the library's label propagation, along edges
/// both ways, small labels first.
pub fn components<'s, T>(edges: VecCollection<'s, T, Edge>) -> VecCollection<'s, T, (Node, u64)>
where
    T: Timestamp + Lattice + Hash,
{
    let both = edges.flat_map(|(from, (to, _))| [(from, to), (to, from)]);
    let nodes = both
        .clone()
        .map(|(node, _)| node)
        .distinct()
        .map(|node| (node, node));
    propagate_at(both, nodes, |label| u64::from(*label))
        .map(|(node, least)| (node, u64::from(least)))
}

/// Each node as often as it has surfers after so many iterations: `examples/pagerank`.
pub fn pagerank<'s, T>(
    iterations: u32,
    edges: VecCollection<'s, T, Edge>,
) -> VecCollection<'s, T, (Node, u64)>
where
    T: Timestamp + Lattice + Hash,
{
    let edges = edges.map(|(from, (to, _))| (from, to));
    let nodes = edges.clone().flat_map(|(from, to)| [from, to]).distinct();
    let degrees = edges.clone().map(|(from, _)| from).count();
    let outer = edges.scope();
    outer
        .iterative::<u32, _, _>(|inner| {
            let edges = edges.enter(inner);
            let nodes = nodes.enter(inner);
            let degrees = degrees.enter(inner);
            let first = nodes.clone().explode(|node| Some((node, 6_000_000)));
            let reset = nodes.explode(|node| Some((node, 1_000_000)));
            let (bind, ranks) = Variable::new_from(first, Product::new(Default::default(), 1));
            let to_push = degrees
                .semijoin(ranks)
                .threshold(|(_node, degree), rank| (5 * rank) / (6 * degree))
                .map(|(node, _degree)| node);
            let pushed = edges
                .semijoin(to_push)
                .map(|(_from, to)| to)
                .concat(reset)
                .consolidate()
                .inner
                .filter(move |(_node, time, _surfers)| time.inner < iterations)
                .as_collection();
            bind.set(pushed.clone());
            pushed.leave(outer)
        })
        .map(|node| (node, 0))
}
