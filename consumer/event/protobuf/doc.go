// Package protobuf compiles the descriptor of a message and what is asked for into a program that walks the bytes of
// messages and makes nothing else of them.
package protobuf

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/refitd/refitd/consumer/event"
)

// fileName is the path of a schema among those that it refers to.
const fileName = "refitd/value.proto"

// Compile is an event.Compiler. The reader's schema adds nothing: fields have numbers, and their types say the
// defaults.
func Compile(w, _ *event.Writer, root *event.Member, maxDepth int) (event.Program, error) {
	file, err := Describe(w)
	if err != nil {
		return nil, err
	}
	if file.Messages().Len() == 0 {
		return nil, errors.New("the schema has no message")
	}
	c := compiler{made: make(map[madeOf]*node), found: make(map[int]bool)}
	p := &program{file: file, compiler: &c, asked: root, maxDepth: maxDepth, byIndex: make(map[string]*node),
		byName: make(map[string]*node)}
	p.first, err = c.message(file.Messages().Get(0), root)
	return p, err
}

// Describe returns the descriptor of the file that a schema is: the last one of a descriptor set.
func Describe(w *event.Writer) (protoreflect.FileDescriptor, error) {
	return describe(w, protocompile.SourceInfoNone)
}

// describe is Describe with the comments of a .proto, or without them, which take memory.
func describe(w *event.Writer, comments protocompile.SourceInfoMode) (protoreflect.FileDescriptor, error) {
	if w.IsSet {
		return ofSet(w.Text)
	}
	sources := map[string]string{fileName: w.Text}
	for _, r := range w.References {
		sources[r.Name] = r.Text
	}
	found := &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(sources)}
	compile := protocompile.Compiler{MaxParallelism: 1, Resolver: protocompile.WithStandardImports(found),
		SourceInfoMode: comments}
	files, err := compile.Compile(context.Background(), fileName)
	if err != nil {
		return nil, fmt.Errorf("a .proto schema: %w", err)
	}
	return files[0], nil
}

// ofSet returns the last file of a descriptor set in base64.
func ofSet(text string) (protoreflect.FileDescriptor, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("a descriptor set: %w", err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(b, &set); err != nil || len(set.File) == 0 {
		return nil, errors.New("no descriptor set, as protoc --include_imports --descriptor_set_out writes it")
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, fmt.Errorf("a descriptor set: %w", err)
	}
	return files.FindFileByPath(set.File[len(set.File)-1].GetName())
}
