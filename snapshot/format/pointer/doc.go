// Package pointer holds what an alias says: which version is meant, since which move, and who vouches for it.
//
// It seals, verifies and orders pointers and renewals, as bytes and as structs. It does not read stores, poll or wait:
// snapshot/publish writes pointers, snapshot follows them. What a reader may accept behind what it has,
// [Pointer.Follow] says. Values are not shared while they are sealed; all else is read only.
package pointer
