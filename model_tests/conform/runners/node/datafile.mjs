// Data files in Parquet and Avro as columns of values.

import { crc32 } from 'node:zlib'
import { parquetMetadata, parquetReadObjects } from 'hyparquet'
import { parquetHeader } from 'hyparquet/src/column.js'
import { decompress } from 'fzstd'
import { recordsOf } from './avro.mjs'
import { Refused, decoding, expect } from './damaged.mjs'

const JULIAN_1970 = 2440588n
const DAY = 86400000000000n
const NANOS = { MILLIS: 1000000n, MICROS: 1000n, NANOS: 1n }

/**
 * Return the rows of a data file as objects with the values of the named columns. `types`: by name, as the file has
 * them; null for `_SEQUENCE_NUMBER` and `_VALUE_KIND`, which are undefined where the file does not have them.
 */
export async function rowsOf(name, data, types) {
  if (name.endsWith('.parquet')) return parquetRows(name, data, types)
  expect(name.endsWith('.avro'), `${name}: the format is not known`)
  return recordsOf(name, data).map((record) => {
    const row = {}
    for (const [column, type] of Object.entries(types)) {
      expect(column in record || type === null, `${name}: expected the column ${column}, found none`)
      row[column] = type === null ? record[column] : ofAvro(record[column], type)
    }
    return row
  })
}

/** Return the records of a manifest in Parquet, with the values that one in Avro has. Clauses: META-23. */
export async function parquetRecords(name, data) {
  const { bytes, metadata } = opened(name, data)
  asStored(metadata)
  return withBuffers(await stored(name, bytes, metadata))
}

function withBuffers(value) {
  if (value instanceof Uint8Array) return Buffer.from(value)
  if (Array.isArray(value)) return value.map(withBuffers)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, withBuffers(part)]))
}

function opened(name, data) {
  const bytes = data.buffer.slice(data.byteOffset, data.byteOffset + data.length)
  const metadata = decoding(name, () => parquetMetadata(bytes))
  decoding(name, () => checkPages(name, data, metadata))
  return { bytes, metadata }
}

/** Return the rows of a file as they are stored, of all columns by default. */
async function stored(name, bytes, metadata, columns) {
  try {
    const compressors = { ZSTD: (page, size) => decompress(page, new Uint8Array(size)) }
    return await parquetReadObjects({ file: bytes, metadata, columns, compressors, utf8: false })
  } catch (error) {
    throw new Refused(`${name}: ${error.message}`)
  }
}

async function parquetRows(name, data, types) {
  const { bytes, metadata } = opened(name, data)
  const elements = topLevel(metadata.schema)
  const columns = Object.keys(types).filter((column) => elements.has(column))
  for (const [column, type] of Object.entries(types)) {
    expect(elements.has(column) || type === null, `${name}: expected the column ${column}, found none`)
  }
  const plain = Object.fromEntries(columns.map((column) => [column, converter(elements.get(column), types[column])]))
  asStored(metadata)
  const rows = await stored(name, bytes, metadata, columns)
  return rows.map((row) => {
    for (const column of columns) row[column] = plain[column](row[column] ?? null)
    return row
  })
}

/**
 * Let hyparquet return values as they are stored, except strings. What they mean is said by the types of the table,
 * and it would make numbers of decimals and dates of times, and take the nanoseconds of an INT96 as an unsigned number.
 */
function asStored(metadata) {
  for (const element of metadata.schema) {
    if (element.type === undefined || element.converted_type === 'UTF8') continue
    delete element.converted_type
    delete element.logical_type
    if (element.type === 'INT96') Object.assign(element, { type: 'FIXED_LEN_BYTE_ARRAY', type_length: 12 })
  }
  for (const group of metadata.row_groups) {
    for (const { meta_data: chunk } of group.columns) {
      if (chunk.type === 'INT96') chunk.type = 'FIXED_LEN_BYTE_ARRAY'
    }
  }
}

/** Verify the checksums of pages, which hyparquet does not. Clauses: META-33. */
function checkPages(name, data, metadata) {
  for (const group of metadata.row_groups) {
    for (const { meta_data: chunk } of group.columns) {
      const start = Number(chunk.dictionary_page_offset || chunk.data_page_offset)
      const end = start + Number(chunk.total_compressed_size)
      const reader = { view: new DataView(data.buffer, data.byteOffset, end), offset: start }
      while (reader.offset < end) {
        const page = parquetHeader(reader)
        const body = data.subarray(reader.offset, reader.offset + page.compressed_page_size)
        const isRight = page.crc === undefined || crc32(body) === page.crc >>> 0
        expect(isRight, `${name}: the CRC-32 of a page of ${chunk.path_in_schema.join('.')} is another`)
        reader.offset += page.compressed_page_size
      }
    }
  }
}

/** Return the elements of the top level of a Parquet schema by name, each with those in it as `parts`. */
function topLevel(schema) {
  let at = 0
  const next = () => {
    const element = { ...schema[at++] }
    element.parts = Array.from({ length: element.num_children ?? 0 }, next)
    return element
  }
  return new Map(next().parts.map((element) => [element.name, element]))
}

/** Return what makes a value of what hyparquet gives. `type`: null for a number that stays as it is. */
function converter(element, type) {
  const convert = type === null ? (value) => value : ofElement(element, type)
  return (value) => (value === null || value === undefined ? null : convert(value))
}

function ofElement(element, type) {
  switch (type.kind) {
    case 'ARRAY': {
      const one = converter(element.parts[0].parts[0], type.element)
      return (value) => value.map(one)
    }
    case 'MAP': {
      const [key, value] = element.parts[0].parts
      const one = converter(value, type.value)
      expect(key.converted_type === 'UTF8', 'a MAP whose keys are no strings is not known')
      return (found) => Object.entries(found).map(([name, mapped]) => [name, one(mapped)])
    }
    case 'ROW': {
      const parts = new Map(element.parts.map((part) => [part.name, part]))
      const fields = type.fields.map(({ name, type: of }) => [name, converter(parts.get(name), of)])
      return (value) => fields.map(([name, one]) => one(value[name]))
    }
    case 'VARIANT':
      expect(!element.parts.some(({ name }) => name === 'typed_value'), 'a VARIANT that is stored in parts is not known')
      return ({ value, metadata }) => [value, metadata]
    case 'DECIMAL':
      return (value) => (value instanceof Uint8Array ? signed(value) : BigInt(value))
    case 'TIMESTAMP': {
      if (element.type === 'INT96') return nanosOfInt96
      const unit = element.logical_type?.unit ?? element.converted_type.slice('TIMESTAMP_'.length)
      return (value) => value * NANOS[unit]
    }
    case 'FLOAT':
    case 'DOUBLE':
      return (value) => value
    default:
      return wholes
  }
}

function wholes(value) {
  return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : value
}

/** Return the nanoseconds since 1970 of nanoseconds and a Julian day, both signed. Clauses: META-47. */
function nanosOfInt96(bytes) {
  const data = Buffer.from(bytes)
  return data.readBigInt64LE(0) + (BigInt(data.readInt32LE(8)) - JULIAN_1970) * DAY
}

/** Return the integer that bytes are in two's complement, big-endian. */
function signed(bytes) {
  return bytes.length ? BigInt.asIntN(8 * bytes.length, BigInt(`0x${Buffer.from(bytes).toString('hex')}`)) : 0n
}

function ofAvro(value, type) {
  if (value === null || value === undefined) return null
  switch (type.kind) {
    case 'ARRAY':
      return value.map((one) => ofAvro(one, type.element))
    case 'MAP':
      return pairs(value).map(([key, one]) => [ofAvro(key, type.key), ofAvro(one, type.value)])
    case 'ROW':
      return type.fields.map((field) => ofAvro(value[field.name], field.type))
    case 'DECIMAL':
      return signed(value)
    case 'TIMESTAMP':
      return value * (type.precision <= 3 ? NANOS.MILLIS : NANOS.MICROS)
    case 'FLOAT':
    case 'DOUBLE':
      return value
    default:
      return wholes(value)
  }
}

function pairs(value) {
  return Array.isArray(value) ? value.map((one) => [one.key, one.value]) : Object.entries(value)
}
