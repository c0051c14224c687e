package format

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// decodeHead reads the first line of a file of a version, a JSON object, into head, whose number of the file's form
// version points into. It returns what follows the line, and refuses another form than the one that this build reads.
func decodeHead(file string, b []byte, head any, version *int, reads int) (rest []byte, err error) {
	first, rest, ok := bytes.Cut(b, []byte{'\n'})
	if err := json.Unmarshal(first, head); err != nil || !ok {
		return nil, fmt.Errorf("%s: %w: the first line is no JSON object", file, disk.ErrFormat)
	}
	if *version != reads {
		return nil, fmt.Errorf("%s: %w: version %d, this build reads %d: the file is of a newer format: "+
			"use a newer build of refitd", file, disk.ErrFormat, *version, reads)
	}
	return rest, nil
}
