// Command wasm is the consumer's side of refitd as a WebAssembly module, for Node, browsers and other hosts. The
// package in snapshot/node has it, with what fetches versions and follows them.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags="-s -w" -o refitd_snapshot.wasm ./snapshot/wasm
//
// A host calls _initialize once. Then it asks refitd_alloc(n) for memory, writes a request there and calls
// refitd_call(): main_wasip1.go says how. Package session has the operations. The module opens no files and no
// connections. It asks the host for the time, for expiries, and for random numbers, for maps. It has one thread.
package main
