//go:build !wasip1

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "this is a WebAssembly module: build it with GOOS=wasip1 GOARCH=wasm -buildmode=c-shared")
	os.Exit(2)
}
