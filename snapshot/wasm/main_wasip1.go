package main

import (
	"encoding/binary"
	"unsafe"

	"github.com/refitd/refitd/snapshot/wasm/session"
)

// abi is raised when a host has to change.
const abi = 1

// The host calls one function at a time: WebAssembly has one thread.
var (
	current = session.New()
	request []byte // that the host writes
	answer  []byte // that the host reads until its next call
)

func main() {}

//go:wasmexport refitd_abi
func refitdABI() uint32 { return abi }

// refitdAlloc returns where the host may write a request of n bytes.
//
//go:wasmexport refitd_alloc
func refitdAlloc(n uint32) uint32 {
	request = make([]byte, max(n, 1))
	return address(request)
}

// refitdCall answers the request that the host has written: the length of its JSON header in four bytes, the header,
// the parts. It returns the address of the answer, in JSON, and in the low 32 bits its length.
//
//go:wasmexport refitd_call
func refitdCall() uint64 {
	b := request
	request = nil // models may keep parts of it
	header, parts := []byte(nil), []byte(nil)
	if len(b) >= 4 {
		n := min(uint64(binary.LittleEndian.Uint32(b)), uint64(len(b)-4))
		header, parts = b[4:4+n], b[4+n:]
	}
	answer = current.Call(header, parts)
	return uint64(address(answer))<<32 | uint64(len(answer))
}

func address(b []byte) uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
