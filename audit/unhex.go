package audit

import (
	"encoding/binary"
	"strings"
)

// Unhex reads lower-case hex digits, two for each byte of to, eight digits at a
// time. False if there are too few digits, or if what stands there is none.
func Unhex(to, from []byte) bool {
	if len(from) < 2*len(to) {
		return false
	}
	bad, i := uint64(0), 0
	for ; i+4 <= len(to) && 2*i+8 <= len(from); i += 4 {
		packed, wrong := unhex8(binary.LittleEndian.Uint64(from[2*i:]))
		binary.LittleEndian.PutUint32(to[i:], packed)
		bad |= wrong
	}
	for ; i < len(to); i++ {
		high, low := strings.IndexByte(hexDigits, from[2*i]), strings.IndexByte(hexDigits, from[2*i+1])
		if high < 0 || low < 0 {
			return false
		}
		to[i] = byte(high<<4 | low)
	}
	return bad == 0
}

const hexDigits = "0123456789abcdef"

// unhex8 reads eight digits; wrong is 0 if they all are. Letters have bit 6, and
// that and the low half make the value; what has a value over 15, or is written
// in another way than its value is, was no digit.
func unhex8(digits uint64) (packed uint32, wrong uint64) {
	const ones = 0x0101010101010101
	value := digits&(0x0f*ones) + digits>>6&ones*9
	letter := (value + (0x80-10)*ones) >> 7 & ones
	wrong = value&(0xf0*ones) | digits ^ (value + '0'*ones + letter*('a'-10-'0'))
	pairs := (value<<4 | value>>8) & 0x00ff00ff00ff00ff
	pairs = (pairs | pairs>>8) & 0x0000ffff0000ffff
	return uint32(pairs | pairs>>16), wrong
}
