//! The groups of ranks that the short form declares.

use std::collections::HashMap;

use penny::Rank;

use super::fields::{Field, Section};

/// The groups of each name, by rank.
pub struct Family {
    pub groups: Vec<Vec<Rank>>,
    pub of_rank: HashMap<Rank, usize>,
}

/// Reads the groups, with `all` among them.
pub fn families(root: &Section<'_>, ranks: u32) -> Result<HashMap<String, Family>, String> {
    let mut families = HashMap::new();
    let all =
        Family { groups: vec![(0..ranks).collect()], of_rank: (0..ranks).map(|rank| (rank, 0)).collect() };
    families.insert("all".to_owned(), all);
    let Some(field) = root.get("group") else { return Ok(families) };
    let Some(table) = field.item.as_table_like() else {
        return Err(field.error("is no table; begin each group with a line such as [group.tp]"));
    };
    for (name, item) in table.iter() {
        let section = root.inner(format!("[group.{name}]"), item)?;
        section.knows(&["ranks", "size", "stride"])?;
        let groups = match section.get("ranks") {
            Some(list) => explicit(&list, ranks)?,
            None => strided(&section, ranks)?,
        };
        let mut of_rank = HashMap::new();
        for (index, group) in groups.iter().enumerate() {
            for &rank in group {
                if of_rank.insert(rank, index).is_some() {
                    return Err(section.error(&format!("rank {rank} is there twice; name each rank once")));
                }
            }
        }
        if families.insert(name.to_owned(), Family { groups, of_rank }).is_some() {
            return Err(section.error("the group `all` is there already, of all ranks; give it another name"));
        }
    }
    Ok(families)
}

fn strided(section: &Section<'_>, ranks: u32) -> Result<Vec<Vec<Rank>>, String> {
    let size = section.need("size", "8")?.number(1..=u64::from(ranks))? as u32;
    let stride = section.get("stride").map_or(Ok(1), |field| field.number(1..=u64::from(ranks)))? as u32;
    let block = u64::from(size) * u64::from(stride);
    if !u64::from(ranks).is_multiple_of(block) {
        return Err(section.error(&format!(
            "{ranks} ranks do not divide into groups of {size} that are {stride} apart; choose numbers whose product divides \
             {ranks}, or list the ranks"
        )));
    }
    let block = block as u32;
    let begins = (0..ranks / block).flat_map(|b| (0..stride).map(move |first| b * block + first));
    Ok(begins.map(|first| (0..size).map(|k| first + k * stride).collect()).collect())
}

fn explicit(list: &Field<'_>, ranks: u32) -> Result<Vec<Vec<Rank>>, String> {
    let groups = list.array("[[0, 1], [2, 3]]")?;
    groups
        .map(|group| {
            let Some(group) = group.as_array().filter(|group| !group.is_empty()) else {
                return Err(list.error("is no list of lists of ranks; write it like [[0, 1], [2, 3]]"));
            };
            group.iter().map(|rank| list.rank(rank, ranks)).collect()
        })
        .collect()
}
