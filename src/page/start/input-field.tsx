/** Draws one field of an input's form, with its description, its hints and its fault. */
import { type ReactNode, useId } from "react";
import { type Faults, type Field, type Filled, hintsOf, startOf, textOf } from "./input-form.ts";

interface FieldProps {
  readonly field: Field;
  readonly filled: Filled;
  readonly faults: Faults;
  readonly onChange: (path: string, value: string | boolean | readonly string[]) => void;
}

/** The attributes that tie a control to its texts. */
interface ControlProps {
  readonly id: string;
  readonly required: boolean;
  readonly "aria-invalid": boolean;
  readonly "aria-describedby": string;
}

export function InputField(props: FieldProps): ReactNode {
  const { field, filled, faults, onChange } = props;
  const id = useId();
  if (field.kind === "group") return <FieldGroup {...props} />;
  if (field.kind === "choices") return <FieldChoices {...props} />;
  const fault = faults[field.path];
  const value = filled[field.path] ?? startOf(field);
  const control = {
    id,
    required: field.isRequired,
    "aria-invalid": fault !== undefined,
    "aria-describedby": `${id}-about`,
  };
  const isFlag = field.kind === "boolean";
  return (
    <div className="field" data-kind={field.kind}>
      {isFlag ? null : <FieldLabel field={field} id={id} />}
      {isFlag ? (
        <span className="flag">
          <input
            {...control}
            required={false}
            type="checkbox"
            checked={value === true}
            onChange={(event) => onChange(field.path, event.target.checked)}
          />
          <FieldLabel field={field} id={id} />
        </span>
      ) : (
        <TextControl
          field={field}
          control={control}
          value={String(value)}
          onChange={(text) => onChange(field.path, text)}
        />
      )}
      <FieldAbout field={field} id={`${id}-about`} fault={fault} />
    </div>
  );
}

function FieldLabel({ field, id }: { field: Field; id: string }): ReactNode {
  const { title } = field.schema;
  return (
    <label htmlFor={id}>
      {typeof title === "string" ? title : field.name}
      {field.isRequired ? null : <span className="faint small"> (optional)</span>}
    </label>
  );
}

function FieldAbout(props: { field: Field; id: string; fault: string | undefined }): ReactNode {
  const { field, id, fault } = props;
  const { description } = field.schema;
  const hints = hintsOf(field);
  return (
    <div id={id} className="field-about">
      {typeof description === "string" ? <p className="hint">{description}</p> : null}
      {hints === "" ? null : <p className="hint">{hints}</p>}
      {fault === undefined ? null : (
        <p className="field-error" role="alert">
          {fault}
        </p>
      )}
    </div>
  );
}

interface TextControlProps {
  readonly field: Field;
  readonly control: ControlProps;
  readonly value: string;
  readonly onChange: (text: string) => void;
}

const INPUT_TYPES: Readonly<Record<string, string>> = {
  date: "date",
  email: "email",
  uri: "url",
  url: "url",
  password: "password",
};
/** Texts that may be longer than this get several lines. */
const LINE_LENGTH_MAX = 120;

function TextControl({ field, control, value, onChange }: TextControlProps): ReactNode {
  const { kind, schema, options } = field;
  const change = (event: { target: { value: string } }): void => onChange(event.target.value);
  if (kind === "enum") {
    return (
      <select {...control} value={value} onChange={change}>
        {field.isRequired && value !== "" ? null : <option value="">–</option>}
        {options.map((option) => (
          <option key={textOf(option)} value={textOf(option)}>
            {textOf(option)}
          </option>
        ))}
      </select>
    );
  }
  const isLong = typeof schema.maxLength !== "number" || schema.maxLength > LINE_LENGTH_MAX;
  const isOneLine = typeof schema.format === "string" || typeof schema.pattern === "string";
  if (kind === "json" || kind === "list" || (kind === "text" && isLong && !isOneLine)) {
    const className = kind === "json" ? "mono" : "grows";
    const rows = kind === "text" ? 1 : 4;
    return (
      <textarea {...control} className={className} rows={rows} value={value} onChange={change} />
    );
  }
  const isNumber = kind === "number" || kind === "integer";
  const type = isNumber ? "text" : (INPUT_TYPES[String(schema.format)] ?? "text");
  return (
    <input
      {...control}
      type={type}
      inputMode={isNumber ? "decimal" : undefined}
      value={value}
      onChange={change}
    />
  );
}

function FieldGroup(props: FieldProps): ReactNode {
  const { field } = props;
  const { title, description } = field.schema;
  return (
    <fieldset className="field-group">
      <legend>{typeof title === "string" ? title : field.name}</legend>
      {typeof description === "string" ? <p className="hint">{description}</p> : null}
      {field.fields.map((one) => (
        <InputField key={one.path} {...props} field={one} />
      ))}
    </fieldset>
  );
}

function FieldChoices({ field, filled, faults, onChange }: FieldProps): ReactNode {
  const id = useId();
  const value = filled[field.path] ?? startOf(field);
  const chosen = Array.isArray(value) ? (value as readonly string[]) : [];
  const toggle = (option: string, isOn: boolean): void =>
    onChange(field.path, isOn ? [...chosen, option] : chosen.filter((one) => one !== option));
  return (
    <fieldset className="field-group" aria-describedby={id}>
      <legend>{field.name}</legend>
      <div className="flags">
        {field.options.map(textOf).map((option) => (
          <label key={option} className="flag">
            <input
              type="checkbox"
              checked={chosen.includes(option)}
              onChange={(event) => toggle(option, event.target.checked)}
            />
            {option}
          </label>
        ))}
      </div>
      <FieldAbout field={field} id={id} fault={faults[field.path]} />
    </fieldset>
  );
}
