// Types of columns and their values. A value is null, a boolean, a BigInt (of integers, days, milliseconds of the day,
// nanoseconds and unscaled decimals), a number (FLOAT, DOUBLE), a string, bytes, or an array of values: of the elements
// of an ARRAY, of the pairs of a MAP, of the fields of a ROW, of the two binaries of a VARIANT.

import { expect } from './damaged.mjs'

const BITS = { TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64 }
const TEXTS = ['STRING', 'VARCHAR', 'CHAR']
const BYTES = ['BYTES', 'VARBINARY', 'BINARY']

/** Return a type of a schema, SQL text or an object, as an object with its `kind`. Clauses: META-19. */
export function typeOf(found) {
  if (typeof found === 'object') {
    const kind = found.type.split(' ')[0]
    if (kind === 'ARRAY') return { kind, element: typeOf(found.element) }
    if (kind === 'MAP') return { kind, key: typeOf(found.key), value: typeOf(found.value) }
    expect(kind === 'ROW', `the type ${found.type} is not known`)
    return { kind, fields: found.fields.map(({ id, name, type }) => ({ id, name, type: typeOf(type) })) }
  }
  const [, name, numbers] = /^([A-Z_]+)(?:\(([\d, ]+)\))?/.exec(found) ?? []
  const given = (numbers ?? '').split(',').filter(Boolean).map(Number)
  const kind = name === 'INTEGER' ? 'INT' : name === 'TIMESTAMP_LTZ' ? 'TIMESTAMP' : name
  if (kind === 'DECIMAL') return { kind, precision: given[0] ?? 10, scale: given[1] ?? 0 }
  if (kind === 'TIMESTAMP') return { kind, precision: given[0] ?? 6 }
  if (TEXTS.includes(kind)) return { kind, length: kind === 'STRING' ? Infinity : (given[0] ?? 1) }
  const known = kind in BITS || ['BOOLEAN', 'FLOAT', 'DOUBLE', 'DATE', 'TIME', 'VARIANT', ...BYTES].includes(kind)
  expect(known, `the type ${found} is not known`)
  return { kind }
}

/** Return a value as the protocol spells it. */
export function textOf(value, type) {
  const parts = partsOf(value, type)
  return parts !== null && typeof parts === 'object' ? JSON.stringify(parts) : parts
}

function partsOf(value, type) {
  if (value === null) return null
  switch (type.kind) {
    case 'ARRAY':
      return value.map((one) => partsOf(one, type.element))
    case 'MAP':
      return value
        .map(([key, one]) => [partsOf(key, type.key), partsOf(one, type.value)])
        .sort(([a], [b]) => compareText(String(a), String(b)))
    case 'ROW':
      return value.map((one, at) => partsOf(one, type.fields[at].type))
    case 'VARIANT':
      return value.map((part) => partsOf(part, { kind: 'BYTES' }))
    case 'FLOAT':
    case 'DOUBLE':
      return floatText(value, type.kind === 'FLOAT' ? 4 : 8)
    case 'DECIMAL':
      return decimalText(value, type.scale)
    default:
      return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value)
  }
}

function floatText(value, size) {
  if (Number.isNaN(value)) return 'nan'
  const bytes = Buffer.alloc(size)
  size === 4 ? bytes.writeFloatBE(value) : bytes.writeDoubleBE(value)
  return bytes.toString('hex')
}

function decimalText(value, scale) {
  const digits = String(value < 0n ? -value : value).padStart(scale + 1, '0')
  const at = digits.length - scale
  return (value < 0n ? '-' : '') + digits.slice(0, at) + (scale ? `.${digits.slice(at)}` : '')
}

/** Return the value that the protocol spells so; the inverse of `textOf` for types that conditions may have. */
export function valueOf(text, type) {
  if (text === null || TEXTS.includes(type.kind)) return text
  if (type.kind === 'BOOLEAN') return text === 'true'
  if (type.kind in BITS || type.kind === 'DATE' || type.kind === 'TIMESTAMP') return BigInt(text)
  expect(type.kind === 'DECIMAL', `a condition on a column of type ${type.kind} is not known`)
  return BigInt(text.replace('.', ''))
}

/** Compare two values of one type that are not null. Clauses: MRG-7. */
export function compare(a, b) {
  if (typeof a === 'string') return compareText(a, b)
  if (a instanceof Uint8Array) return Buffer.compare(a, b)
  if (typeof a === 'number') return compareFloats(a, b)
  return a < b ? -1 : a > b ? 1 : 0
}

function compareText(a, b) {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

function compareFloats(a, b) {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b))
  return a - b || Number(Object.is(b, -0)) - Number(Object.is(a, -0))
}

/** Return what converts values of an older type to the type of today. Clauses: META-39, META-40, META-16, META-42. */
export function conversion(from, to) {
  const same = from.kind === to.kind
  const convert = same ? withinKind(from, to) : betweenKinds(from, to)
  expect(convert, `a conversion of ${from.kind} to ${to.kind} is not known`)
  return (value) => (value === null ? null : convert(value))
}

function withinKind(from, to) {
  if (to.kind === 'ARRAY') {
    const element = conversion(from.element, to.element)
    return (value) => value.map(element)
  }
  if (to.kind === 'MAP') {
    const one = conversion(from.value, to.value)
    const same = JSON.stringify(from.key) === JSON.stringify(to.key)
    return same && ((value) => value.map(([key, mapped]) => [key, one(mapped)]))
  }
  if (to.kind === 'ROW') return ofRow(from, to)
  if (to.kind === 'DECIMAL') return from.scale === to.scale && from.precision <= to.precision && ((value) => value)
  if (to.kind === 'TIMESTAMP') return from.precision <= to.precision && ((value) => value)
  if (TEXTS.includes(to.kind)) return from.length <= to.length && ((value) => value)
  return (value) => value
}

function ofRow(from, to) {
  const fields = to.fields.map((field) => {
    const at = from.fields.findIndex((one) => one.id === field.id)
    return at < 0 ? () => null : ((convert) => (row) => convert(row[at]))(conversion(from.fields[at].type, field.type))
  })
  const isNew = to.fields.every((field) => !from.fields.some((one) => one.id === field.id))
  return (row) => (isNew ? null : fields.map((field) => field(row)))
}

function betweenKinds(from, to) {
  if (from.kind in BITS && to.kind in BITS) return (value) => BigInt.asIntN(BITS[to.kind], value)
  if (from.kind in BITS && to.kind === 'DOUBLE') return Number
  if (from.kind === 'FLOAT' && to.kind === 'DOUBLE') return (value) => value
  if (TEXTS.includes(from.kind) && to.kind === 'STRING') return (value) => value
  return null
}
