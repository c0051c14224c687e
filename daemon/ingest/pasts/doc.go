// Package pasts has what derived fields need of the entities of a model: their earlier events, partition by partition.
//
// It fills derived fields and keeps the pasts in the state, with the records that change them. What a field is, package
// event says; it decodes no records and learns nothing. [Pasts] is safe for concurrent use, but the records of a
// partition have to come in order. Memory is bounded by [MaxEntities] of each partition.
package pasts
