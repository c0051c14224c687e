// Package protobuf compiles the descriptor of a message and what is asked for into a program that walks the bytes of
// messages and makes nothing else of them.
package protobuf

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/refitd/refitd/consumer/event"
)

// fileName is the path of a schema among those that it refers to.
const fileName = "refitd/value.proto"

// Compile is an event.Compiler. The reader's schema gives fields their names, by their numbers: a writer may call them
// otherwise. Types and defaults are the writer's.
func Compile(w, reader *event.Writer, root *event.Member, maxDepth int) (event.Program, error) {
	file, err := Describe(w)
	if err != nil {
		return nil, err
	}
	if file.Messages().Len() == 0 {
		return nil, errors.New("the schema has no message")
	}
	read, err := messagesOf(reader)
	if err != nil {
		return nil, fmt.Errorf("the reader's schema: %w", err)
	}
	c := compiler{made: make(map[madeOf]*node), found: make(map[int]bool)}
	p := &program{writer: w, reader: reader, shapes: shapesOf(file.Messages()), compiler: &c, asked: root,
		maxDepth: maxDepth, byIndex: make(map[string]*node), byName: make(map[string]*node)}
	first := file.Messages().Get(0)
	p.first, err = c.message(first, readAs(first, read), root)
	return p, err
}

// messagesOf returns the messages of a reader's schema, nil without one.
func messagesOf(reader *event.Writer) (protoreflect.MessageDescriptors, error) {
	if reader == nil {
		return nil, nil
	}
	file, err := Describe(reader)
	if err != nil {
		return nil, err
	}
	return file.Messages(), nil
}

// readAs returns the message of a reader that a message of a writer is: that of the same full name, or of the same name
// among those that are in no other, or the only one. Nil for none.
func readAs(m protoreflect.MessageDescriptor, read protoreflect.MessageDescriptors) protoreflect.MessageDescriptor {
	if read == nil {
		return nil
	}
	if same := named(read, m.FullName()); same != nil {
		return same
	}
	if same := read.ByName(m.Name()); same != nil {
		return same
	}
	if read.Len() == 1 {
		return read.Get(0)
	}
	return nil
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
	sources := maps.Clone(wellKnown)
	sources[fileName] = w.Text
	for _, r := range w.References {
		sources[r.Name] = r.Text
	}
	var mu sync.Mutex // Compile does not wait for the imports behind one that fails
	var missing []string
	lacks := func(names []string) {
		mu.Lock()
		defer mu.Unlock()
		missing = append(missing, names...)
	}
	found := protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
		text, ok := sources[path]
		if !ok {
			return protocompile.SearchResult{}, protoregistry.NotFound
		}
		if file := descriptorOf(path, text); file != nil {
			lacks(withoutOptions(file, sources))
			return protocompile.SearchResult{Proto: file}, nil
		}
		report := reporter.NewHandler(nil)
		tree, err := parser.Parse(path, strings.NewReader(text), report)
		if err != nil {
			return protocompile.SearchResult{}, err
		}
		parsed, err := parser.ResultFromAST(tree, true, report)
		if err == nil {
			lacks(withoutOptions(parsed.FileDescriptorProto(), sources))
		}
		return protocompile.SearchResult{ParseResult: parsed}, err
	})
	compile := protocompile.Compiler{MaxParallelism: 1, Resolver: protocompile.WithStandardImports(found),
		SourceInfoMode: comments}
	files, err := compile.Compile(context.Background(), fileName)
	mu.Lock()
	defer mu.Unlock()
	if err != nil && len(missing) > 0 {
		return nil, fmt.Errorf("a .proto schema without %s: %w", strings.Join(missing, ", "), err)
	} else if err != nil {
		return nil, fmt.Errorf("a .proto schema: %w", err)
	}
	return files[0], nil
}

// descriptorOf returns the descriptor of a file in base64, nil for a .proto: the serializer of Python registers its
// schemas so, and not every registry makes text of them.
func descriptorOf(path, text string) *descriptorpb.FileDescriptorProto {
	b, err := base64.StdEncoding.DecodeString(text)
	file := new(descriptorpb.FileDescriptorProto)
	if err != nil || len(b) == 0 || proto.Unmarshal(b, file) != nil {
		return nil
	}
	file.Name = &path
	for _, m := range file.MessageType {
		nameMembers(m)
	}
	return file
}

// nameMembers gives the fields of a message the names in JSON that compilers leave out of descriptors, and that fields
// without one would share.
func nameMembers(m *descriptorpb.DescriptorProto) {
	for _, f := range m.Field {
		if f.JsonName != nil {
			continue
		}
		var name []byte
		up := false
		for _, c := range []byte(f.GetName()) {
			if up && 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			if up = c == '_'; !up {
				name = append(name, c)
			}
		}
		f.JsonName = proto.String(string(name))
	}
	for _, inner := range m.NestedType {
		nameMembers(inner)
	}
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
