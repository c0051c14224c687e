package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// ReadAlias reads an alias file, whose digest the caller verifies. It returns ErrNotFound, ErrName or ErrFormat.
func ReadAlias(root *os.Root, alias string) (pointer.Pointer, error) {
	if !disk.ValidName.MatchString(alias) {
		return pointer.Pointer{}, fmt.Errorf("%w: alias %q is not of the form %s", disk.ErrName, alias, disk.ValidName)
	}
	b, err := disk.ReadFile(root, disk.AliasDir+"/"+alias, pointer.MaxAliasBytes)
	if errors.Is(err, fs.ErrNotExist) {
		names, _ := disk.List(root, disk.AliasDir) // only to say which there are
		names = slices.DeleteFunc(names, func(name string) bool { return !disk.ValidName.MatchString(name) })
		slices.Sort(names)
		return pointer.Pointer{}, fmt.Errorf(
			"%w: no alias %s (there is: %s): promote a version, or choose one by its number (--version)",
			disk.ErrNotFound, alias, strings.Join(names, ", "))
	}
	if err != nil {
		return pointer.Pointer{}, err
	}
	return pointer.DecodePointer(alias, b)
}

// ReadRenewal adds the renewal of an alias to its pointer, unverified: VerifyRenewal verifies it.
func ReadRenewal(root *os.Root, alias string, p *pointer.Pointer) {
	p.Renewal = pointer.Renewal{}
	if b, err := disk.ReadFile(root, disk.RenewalDir+"/"+alias, pointer.MaxAliasBytes); err == nil &&
		json.Unmarshal(b, &p.Renewal) != nil {
		p.Renewal = pointer.Renewal{}
	}
}
