import json
from datetime import datetime

import pytest

from twofold.engine.chat_template import ChatTemplate, choose
from twofold.errors import SpecError

CHATML = """
{%- for message in messages %}
    {%- if loop.first and message.role != 'system' %}
        {{- '<|im_start|>system\\nBe brief.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
TOOLS = """
{%- set ns = namespace(last=none) -%}
{{ bos_token }}
{%- if tools %}
    {%- for tool in tools %}{{ tool | tojson }}|{{ tool.function | tojson(indent=2) }}{% endfor %}
{%- endif %}
{%- for message in messages %}
    {%- if message.tool_calls is defined and message.tool_calls %}
        {%- for call in message.tool_calls %}
            {%- if call.function.arguments is mapping %}<{{ call.function.name }}>
                {%- for key, value in call.function.arguments | dictsort %}{{ key }}={{ value | tojson }};{% endfor %}
            {%- endif %}
        {%- endfor %}
        {%- continue %}
    {%- endif %}
    {%- if message.role == 'assistant' %}{% generation %}{{ message.content | trim }}{% endgeneration %}
    {%- else %}{{ message.content }}{% endif %}
    {%- set ns.last = message.role %}
{%- endfor %}
{{ ns.last }}{{ eos_token }}
"""
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "é<": {}}}}
CHAT = [
    {"role": "user", "content": "What is <b>new</b> & é?"},
    {"role": "assistant", "content": "  Nothing.  "},
    {"role": "user", "content": "Sure?"},
]
CALLED = [
    *CHAT,
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "weather", "arguments": {"b": [1, "é"], "a": None}}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "rain"},
]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


@pytest.mark.parametrize("prompt", [True, False])
@pytest.mark.parametrize(
    ("source", "messages", "tools"),
    [(CHATML, CHAT, None), (TOOLS, CHAT, None), (TOOLS, CALLED, [TOOL])],
)
def test_renders_what_the_reference_renders(source, messages, tools, prompt):
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    expected, _ = utils.render_jinja_template(
        [messages], tools=tools, chat_template=source, add_generation_prompt=prompt, **SPECIAL
    )
    assert ChatTemplate(source, SPECIAL).render(messages, tools, prompt) == expected[0]


def test_arguments_in_a_string_become_values():
    as_text = json.loads(json.dumps(CALLED))
    function = as_text[3]["tool_calls"][0]["function"]
    function["arguments"] = json.dumps(function["arguments"])
    template = ChatTemplate(TOOLS, SPECIAL)
    assert template.render(as_text, [TOOL]) == template.render(CALLED, [TOOL])


def test_no_content_and_parts_of_text():
    template = ChatTemplate("{% for each in messages %}({{ each.content }}){% endfor %}")
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert template.render([{"role": "assistant", "content": None}, {"role": "user", "content": parts}]) == "()(a\nb)"


def test_what_is_not_text_is_refused_where_it_is():
    image = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]
    with pytest.raises(SpecError, match=r"messages\[1\]\.content\[1\]\.type: 'image_url'"):
        ChatTemplate("").render([CHAT[0], {"role": "user", "content": image}])


def test_arguments_that_are_not_json_are_refused():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{nope"}}
    with pytest.raises(SpecError, match="arguments"):
        ChatTemplate("").render([{"role": "assistant", "content": None, "tool_calls": [call]}])


def test_the_template_may_refuse_messages():
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(SpecError, match="roles must alternate"):
        template.render(CHAT)


@pytest.mark.parametrize("source", ["{{ messages[0].content + 1 }}", "{{ messages[9].content.x }}", "{{ 1 // 0 }}"])
def test_templates_that_fail_say_so_in_one_line(source):
    with pytest.raises(SpecError, match="chat template") as caught:
        ChatTemplate(source).render(CHAT)
    assert "\n" not in str(caught.value)


def test_what_is_no_template_is_refused():
    with pytest.raises(SpecError, match="chat_template"):
        ChatTemplate("{% for %}")


def test_tools_need_a_place_in_the_template():
    assert ChatTemplate(TOOLS).takes_tools
    assert not ChatTemplate(CHATML).takes_tools
    with pytest.raises(SpecError, match="weather"):
        ChatTemplate(CHATML).render(CHAT, [TOOL])


def test_the_time_is_now():
    before = datetime.now()
    shown = datetime.fromisoformat(ChatTemplate("{{ strftime_now('%Y-%m-%dT%H:%M:%S.%f') }}").render([]))
    assert before <= shown <= datetime.now()


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ raise_exception.__globals__.x }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ dict.__base__.x }}",
        "{% set n = namespace(__class__=1) %}",
        "{% set n = namespace({'__class__': 1}) %}",
        "{% set n = namespace() %}{% set n.__class__ = 1 %}",
        "{% for i in range(1000000000) %}{% endfor %}",
        "{{ messages.append(1) }}",
    ],
)
def test_a_template_cannot_leave_its_sandbox(source):
    with pytest.raises(SpecError, match="messages"):
        ChatTemplate(source).render(CHAT)


def test_a_list_of_templates_is_chosen_from_by_name():
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    assert (choose(named, tools=False), choose(named, tools=True), choose(named[:1], tools=True)) == ("d", "t", "d")
    assert (choose("text", tools=True), choose(None, tools=False), choose([], tools=False)) == ("text", None, None)
