// Merge engines: what the records of a key, the oldest first, become.

import { Refused, expect } from './damaged.mjs'
import { compare, textOf } from './values.mjs'

const WHITE = /^[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]*$/
const OLDER_NAMES = ['first-row', 'deduplicate', 'partial-update'].map((engine) => `${engine}.ignore-delete`)

/**
 * Return what makes the row of a key of its records, null if it has none. A record has `isAdd`, `kind` and `row`.
 * Clauses: MRG-1, MRG-3, MRG-9, MRG-12 to MRG-17, MRG-20.
 */
export function engineOf(options, schema) {
  const name = (options['merge-engine'] ?? 'deduplicate').toLowerCase()
  expect(name in ENGINES, `the merge engine ${name} is not known`)
  const ignores = options[['ignore-delete', ...OLDER_NAMES].find((one) => one in options)] === 'true'
  const fold = ENGINES[name](options, schema)
  return (records) => fold(ignores ? records.filter((record) => record.isAdd) : records)
}

const ENGINES = {
  deduplicate: () => (records) => (records.length && records.at(-1).isAdd ? records.at(-1).row : null),
  'first-row': () => (records) => {
    for (const { isAdd } of records) expect(isAdd, 'a retraction in a table of first-row')
    return records.length ? records[0].row : null
  },
  'partial-update': partialUpdate,
  aggregation,
}

function aggregation(options, schema) {
  const removes = options['aggregation.remove-record-on-delete'] === 'true'
  const ordering = namesOf(options['sequence.field'])
  const columns = schema.fields.map(({ name, type }) => {
    if (isCommon(schema, name)) return (records) => records.at(-1).value
    return folded(options, name, ordering.includes(name) ? 'last_value' : functionOf(options, name), type)
  })
  return (records) => {
    const counted = sinceRemoval(records, (record) => removes && record.kind === 3)
    return counted && columns.map((column, at) => column(counted.map((record) => withValue(record, at))))
  }
}

function partialUpdate(options, schema) {
  const removes = options['partial-update.remove-record-on-delete'] === 'true'
  const groups = groupsOf(options, schema)
  const removing = namesOf(options['partial-update.remove-record-on-sequence-group'])
  const groupAt = (at) => groups.find((group) => group.ordering.includes(at) || group.protected.includes(at))
  const removals = groups.filter((group) => group.ordering.some((at) => removing.includes(schema.fields[at].name)))
  const folds = schema.fields.map(({ name, type }, at) => {
    const group = groupAt(at)
    const own = options[`fields.${name}.aggregate-function`] ?? options['fields.default-aggregate-function']
    const isFolded = own !== undefined && group?.protected.includes(at) && own !== 'last_value'
    return isFolded && folded(options, name, own, type)
  })
  const column = (records, at) => {
    if (isCommon(schema, schema.fields[at].name)) return records.at(-1).row[at]
    const group = groupAt(at)
    if (records.length === 1) return records[0].row[at]
    if (!group) return records.filter((one) => one.isAdd && one.row[at] !== null).at(-1)?.row[at] ?? null
    const given = records.filter((one) => group.hasOrder(one.row))
    if (folds[at]) return folds[at](given.map((record) => withValue(record, at)))
    const winner = group.newest(given)
    const isShown = winner && (winner.isAdd || group.ordering.includes(at))
    return isShown ? winner.row[at] : null
  }
  return (records) => {
    const rest = removes ? records.filter((record) => record.kind !== 1) : records
    if (!removes && !groups.length) for (const { isAdd } of rest) expect(isAdd, 'a retraction of partial-update')
    const isRemoval = (record, before) =>
      record.kind === 3 && (removes || removals.some((group) => group.wins(record, before)))
    const counted = sinceRemoval(rest, isRemoval)
    return counted && schema.fields.map((_, at) => column(counted, at))
  }
}

/**
 * Return the records that make the row: those from the first add after the last removal on, null if there are none.
 * `isRemoval`: of a record and those that made the row before it. Clauses: MRG-16, MRG-17.
 */
function sinceRemoval(records, isRemoval) {
  let found = []
  for (const record of records) {
    if (!record.isAdd && isRemoval(record, found)) found = []
    else if (record.isAdd || found.length) found.push(record)
  }
  return found.length ? found : null
}

/** Return the sequence groups: the places of the columns that order each, and of those that it protects. */
function groupsOf(options, schema) {
  const place = (name) => schema.fields.findIndex((field) => field.name === name)
  return Object.entries(options).flatMap(([name, value]) => {
    const [, columns] = /^fields\.(.*)\.sequence-group$/.exec(name) ?? []
    if (columns === undefined) return []
    const ordering = namesOf(columns).map(place)
    const hasOrder = (row) => ordering.some((at) => row[at] !== null)
    const isLess = (a, b) => {
      const differs = ordering.find((at) => orderOf(a.row[at], b.row[at]) !== 0)
      return differs !== undefined && orderOf(a.row[differs], b.row[differs]) < 0
    }
    const newest = (records) => records.reduce((best, one) => (best && isLess(one, best) ? best : one), null)
    const wins = (record, before) => {
      const best = newest(before.filter((one) => hasOrder(one.row)))
      return before.length > 0 && hasOrder(record.row) && !(best && isLess(record, best))
    }
    return [{ ordering, protected: namesOf(value).map(place), hasOrder, newest, wins }]
  })
}

/** Compare two values, of which null is the least. */
function orderOf(a, b) {
  if (a === null || b === null) return Number(a !== null) - Number(b !== null)
  return compare(a, b)
}

function namesOf(text) {
  return (text ?? '').split(',').map((name) => name.trim()).filter(Boolean)
}

function isCommon(schema, name) {
  return schema.primaryKeys.includes(name) || schema.partitionKeys.includes(name)
}

function functionOf(options, name) {
  const byDefault = options['fields.default-aggregate-function'] ?? 'last_non_null_value'
  return options[`fields.${name}.aggregate-function`] ?? byDefault
}

function withValue(record, at) {
  return { isAdd: record.isAdd, value: record.row[at] }
}

// ------------------------------------------------------------ functions

/** Return what folds the values of a column, the oldest first. Clauses: MRG-9, MRG-10. */
function folded(options, column, name, type) {
  expect(name in FUNCTIONS, `the aggregate function ${name} of ${column} is not known`)
  const [fold, retracts] = FUNCTIONS[name]
  const option = (ending) => options[`fields.${column}.${ending}`]
  const ignores = option('ignore-retract') === 'true'
  return (records) => {
    const counted = ignores ? records.filter((one) => one.isAdd) : records
    const isFine = retracts || counted.every((one) => one.isAdd)
    expect(isFine, `the function ${name} of ${column} cannot take a retraction back`)
    return fold(counted, type, option)
  }
}

const known = (records) => records.filter(({ value }) => value !== null)
const first = (records) => records[0]?.value ?? null
const last = (records) => (records.at(-1)?.isAdd ? records.at(-1).value : null)
const chosen = (better) => [
  (records) => known(records).reduce((best, { value }) => (best === null || better(compareAny(value, best)) ? value : best), null),
]
const compareAny = (a, b) => (typeof a === 'boolean' ? Number(a) - Number(b) : compare(a, b))
const nested = (fold) => (records, type, option) => {
  const begin = records.findIndex(({ isAdd, value }) => isAdd && value !== null)
  const counted = begin < 0 ? [] : known(records.slice(begin))
  return counted.length ? fold(counted, type, option) : null
}

const FUNCTIONS = {
  sum: [(records, type) => total(known(records), type), true],
  product: [product],
  max: chosen((order) => order > 0),
  min: chosen((order) => order < 0),
  bool_or: chosen((order) => order > 0),
  bool_and: chosen((order) => order < 0),
  first_value: [first],
  last_value: [last, true],
  first_non_null_value: [(records) => first(known(records))],
  first_not_null_value: [(records) => first(known(records))],
  last_non_null_value: [(records) => last(known(records)), true],
  listagg: [listagg],
  collect: [nested(collect), true],
  nested_update: [nested(nestedUpdate), true],
  merge_map: [nested(mergeMap), true],
}

function product(records, type) {
  expect(type.kind !== 'DECIMAL', 'a product of DECIMAL is not known')
  return held(known(records).reduce((found, { value }) => (found === null ? value : found * value), null), type)
}

function total(records, type) {
  const signed = records.map(({ isAdd, value }) => (isAdd ? value : -value))
  return held(signed.reduce((sum, value) => (sum === null ? value : sum + value), null), type)
}

/** Return a number that its type can hold. The unscaled value of a decimal has as many digits as its type. */
function held(value, type) {
  if (typeof value !== 'bigint') return type.kind === 'FLOAT' && value !== null ? Math.fround(value) : value
  const bits = { TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64 }[type.kind]
  const isHeld = bits ? BigInt.asIntN(bits, value) === value : String(value).replace('-', '').length <= type.precision
  if (!isHeld) throw new Refused(`${value} is too great for its type`)
  return value
}

function listagg(records, type, option) {
  if (records.length === 1) return records[0].value
  const texts = records.map(({ value }) => value).filter((value) => value !== null && !WHITE.test(value))
  return texts.length ? texts.join(option('list-agg-delimiter') ?? ',') : null
}

/** The elements of all arrays. A retraction takes out the oldest equal one, of distinct elements each. MRG-33. */
function collect(records, type, option) {
  if (records.length === 1 && records[0].isAdd) return records[0].value
  const isDistinct = option('distinct') === 'true'
  let found = []
  for (const { isAdd, value } of records) {
    for (const one of value) {
      const text = textOf(one, type.element)
      const at = found.findIndex((other) => other.text === text)
      if (!isAdd && at >= 0) found.splice(at, 1)
      if (isAdd && !(isDistinct && at >= 0)) found.push({ text, one })
    }
  }
  return found.map(({ one }) => one)
}

/** The rows of all arrays, of equal keys the newest in the place of the first. Clauses: MRG-27, MRG-32, MRG-34. */
function nestedUpdate(records, type, option) {
  if (records.length === 1 && records[0].isAdd) return records[0].value
  const { fields } = type.element
  const names = namesOf(option('nested-key'))
  const places = fields.map((_, at) => at).filter((at) => !names.length || names.includes(fields[at].name))
  const limit = Math.max(Number(option('count-limit') ?? Infinity), records[0].value.filter((row) => row !== null).length)
  let found = []
  for (const { isAdd, value } of records) {
    for (const row of value.filter((one) => one !== null)) {
      const text = JSON.stringify(places.map((at) => textOf(row[at], fields[at].type)))
      const older = names.length ? found.find((other) => other.text === text) : undefined
      if (!isAdd) found = found.filter((other) => other.text !== text)
      else if (older) older.row = row
      else if (found.length < limit) found.push({ text, row })
    }
  }
  return found.map(({ row }) => row)
}

function mergeMap(records, type) {
  const found = new Map()
  for (const { isAdd, value } of records) {
    for (const [key, one] of value) {
      const text = textOf(key, type.key)
      if (isAdd) found.set(text, [key, one])
      else found.delete(text)
    }
  }
  return [...found.values()]
}
