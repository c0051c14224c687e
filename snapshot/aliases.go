package snapshot

import (
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

const Constant = scorer.Constant
const Latest = format.Latest
const ManifestFile = disk.ManifestFile
const Mapped = scorer.Mapped
const MaxExplained = scorer.MaxExplained
const MaxHistory = scorer.MaxHistory

type Explanation = scorer.Explanation
type Input = format.Input
type Item = format.Item
type Keys = format.Keys
type LabelledEvent = format.LabelledEvent
type Manifest = format.Manifest
type Model = scorer.Model
type Overlay = scorer.Overlay
type Pointer = format.Pointer
type Position = format.Position
type Prediction = format.Prediction
type Query = format.Query
type Renewal = format.Renewal
type Schema = format.Schema
type Scratch = scorer.Scratch
type Selector = verify.Selector
type Term = scorer.Term
type Trust = verify.Trust

var ErrChain = disk.ErrChain
var ErrConflict = disk.ErrConflict
var ErrContents = disk.ErrContents
var ErrDigest = disk.ErrDigest
var ErrExpired = disk.ErrExpired
var ErrFormat = disk.ErrFormat
var ErrGolden = disk.ErrGolden
var ErrInput = disk.ErrInput
var ErrKey = disk.ErrKey
var ErrName = disk.ErrName
var ErrNoFoldIn = scorer.ErrNoFoldIn
var ErrNotFound = disk.ErrNotFound
var ErrOlder = disk.ErrOlder
var ErrSignature = disk.ErrSignature
