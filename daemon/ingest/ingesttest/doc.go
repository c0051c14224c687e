// Package ingesttest has the models that tests of several rooms of the ingest share. It is for tests alone.
//
// It opens no stores and makes no records: each test writes those of its case. Nothing here is shared between calls.
package ingesttest
