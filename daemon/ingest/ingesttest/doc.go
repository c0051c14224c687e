// Package ingesttest has the models and records that tests of several rooms of the ingest share. It is for tests alone.
//
// It opens no stores and decodes nothing. Nothing here is shared between calls.
package ingesttest
