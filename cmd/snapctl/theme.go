package main

import (
	"slices"
	"strconv"
	"strings"
)

// Roles of what is printed in colour: keys of [theme] in the configuration.
const (
	asAdded   = "added"
	asRemoved = "removed"
	asChanged = "changed"
	asName    = "name"
	asNote    = "note"
	asHeading = "heading"
	asFaded   = "faded"
)

// paint colours a text if colours are on, and there is one.
func (a *app) paint(role, text string) string {
	if !a.colour || text == "" || role == "" {
		return text
	}
	on := a.colourOf(role)
	if on == "" {
		return text
	}
	return on + text + colourOff
}

const colourOff = "\x1b[m"

// colourOf returns what has a terminal print in the colour of a role, "" if it has none.
func (a *app) colourOf(role string) string {
	code, _ := parseColour(a.setting("theme." + role))
	if code == "" {
		return ""
	}
	return "\x1b[" + code + "m"
}

// colourNames are the eight that each terminal has, in the order of their numbers.
var colourNames = []string{"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}

var styles = map[string]string{"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "none": ""}

// parseColour reads words for a colour and styles, and returns the numbers by which
// terminals know them: "bold red" is "1;31".
func parseColour(text string) (code string, ok bool) {
	var codes []string
	n := 0
	for word := range strings.FieldsSeq(text) {
		n++
		style, isStyle := styles[word]
		number, err := strconv.ParseUint(word, 10, 8)
		switch rgb, isRGB := strings.CutPrefix(word, "#"); {
		case isStyle && style == "":
		case isStyle:
			codes = append(codes, style)
		case isRGB:
			v, err := strconv.ParseUint(rgb, 16, 24)
			if err != nil || len(rgb) != 6 {
				return "", false
			}
			codes = append(codes, "38;2;"+strconv.Itoa(int(v>>16))+";"+strconv.Itoa(int(v>>8&0xff))+";"+
				strconv.Itoa(int(v&0xff)))
		case err == nil:
			codes = append(codes, "38;5;"+strconv.Itoa(int(number)))
		default:
			name, isBright := strings.CutPrefix(word, "bright-")
			i := slices.Index(colourNames, name)
			if i < 0 {
				return "", false
			}
			if i += 30; isBright {
				i += 60
			}
			codes = append(codes, strconv.Itoa(i))
		}
	}
	return strings.Join(codes, ";"), n > 0
}
