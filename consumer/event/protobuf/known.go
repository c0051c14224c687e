package protobuf

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// wellKnown are the schemas that registries and serializers take for known: none is a reference of those that import
// them (skip.known.types of Confluent's). They have what is read, without comments and options.
var wellKnown = map[string]string{
	"confluent/type/decimal.proto": proto3("confluent.type",
		"message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"),
	"google/type/calendar_period.proto": proto3("google.type", `enum CalendarPeriod {
		CALENDAR_PERIOD_UNSPECIFIED = 0; DAY = 1; WEEK = 2; FORTNIGHT = 3; MONTH = 4; QUARTER = 5; HALF = 6; YEAR = 7; }`),
	"google/type/color.proto": proto3("google.type", `import "google/protobuf/wrappers.proto";
		message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }`),
	"google/type/date.proto": proto3("google.type", "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }"),
	"google/type/datetime.proto": proto3("google.type", `import "google/protobuf/duration.proto";
		message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5;
			int32 seconds = 6; int32 nanos = 7;
			oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }
		message TimeZone { string id = 1; string version = 2; }`),
	"google/type/dayofweek.proto": proto3("google.type", `enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1;
		TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4; FRIDAY = 5; SATURDAY = 6; SUNDAY = 7; }`),
	"google/type/decimal.proto": proto3("google.type", "message Decimal { string value = 1; }"),
	"google/type/expr.proto": proto3("google.type", `message Expr {
		string expression = 1; string title = 2; string description = 3; string location = 4; }`),
	"google/type/fraction.proto": proto3("google.type",
		"message Fraction { int64 numerator = 1; int64 denominator = 2; }"),
	"google/type/latlng.proto": proto3("google.type", "message LatLng { double latitude = 1; double longitude = 2; }"),
	"google/type/money.proto": proto3("google.type",
		"message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }"),
	"google/type/month.proto": proto3("google.type", `enum Month { MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2;
		MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6; JULY = 7; AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11;
		DECEMBER = 12; }`),
	"google/type/postal_address.proto": proto3("google.type", `message PostalAddress { int32 revision = 1;
		string region_code = 2; string language_code = 3; string postal_code = 4; string sorting_code = 5;
		string administrative_area = 6; string locality = 7; string sublocality = 8; repeated string address_lines = 9;
		repeated string recipients = 10; string organization = 11; }`),
	"google/type/quaternion.proto": proto3("google.type",
		"message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }"),
	"google/type/timeofday.proto": proto3("google.type",
		"message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }"),
}

func proto3(pkg, text string) string { return `syntax = "proto3"; package ` + pkg + "; " + text }

// withoutOptions takes the options out of a file that are extensions, and the imports that nobody has, which it
// returns: they may be of options alone, which say nothing of the bytes.
func withoutOptions(f *descriptorpb.FileDescriptorProto, sources map[string]string) (missing []string) {
	index, imports := make(map[int32]int32), f.Dependency
	f.Dependency = nil
	for i, path := range imports {
		if _, has := sources[path]; has || strings.HasPrefix(path, "google/protobuf/") {
			index[int32(i)] = int32(len(f.Dependency))
			f.Dependency = append(f.Dependency, path)
		} else {
			missing = append(missing, path)
		}
	}
	moved := func(list []int32) (kept []int32) {
		for _, i := range list {
			if to, has := index[i]; has {
				kept = append(kept, to)
			}
		}
		return kept
	}
	f.PublicDependency, f.WeakDependency = moved(f.PublicDependency), moved(f.WeakDependency)
	strip(f.ProtoReflect())
	return missing
}

// strip takes the options out of a descriptor and those within that are extensions.
func strip(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() != protoreflect.MessageKind:
		case !f.IsList():
			strip(v.Message())
		default:
			list, kept := v.List(), 0
			for i := range list.Len() {
				one := list.Get(i)
				o, isOption := one.Message().Interface().(*descriptorpb.UninterpretedOption)
				if isOption && slices.ContainsFunc(o.Name, (*descriptorpb.UninterpretedOption_NamePart).GetIsExtension) {
					continue
				}
				list.Set(kept, one)
				kept++
				strip(one.Message())
			}
			list.Truncate(kept)
		}
		return true
	})
}
